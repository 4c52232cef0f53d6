//! Options of readers and writers.

/// Options of a reader: what is read, and how large the input may be.
///
/// ```
/// use arrow_device_ipc::ReadOptions;
///
/// let options = ReadOptions::new().columns([2, 0]).max_message(1 << 30).validate(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) max_header: u64,
    pub(crate) max_message: u64,
    pub(crate) max_unpacked: u64,
    pub(crate) max_dictionaries: u64,
    pub(crate) validates: bool,
}

impl ReadOptions {
    /// The defaults: all columns, headers of up to 256 MiB, bodies of any length that is there,
    /// compressed bodies that claim to be up to 16 GiB, and dictionaries of up to 16 GiB together.
    /// Data is not validated.
    pub fn new() -> Self {
        Self {
            columns: None,
            max_header: 256 << 20,
            max_message: u64::MAX,
            max_unpacked: 16 << 30,
            max_dictionaries: 16 << 30,
            validates: false,
        }
    }

    /// Sets which columns are read, in this order. A number may occur twice.
    pub fn columns(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.columns = Some(columns.into_iter().collect());
        self
    }

    /// Sets the most bytes that the header of a message may have.
    pub fn max_header(mut self, bytes: u64) -> Self {
        self.max_header = bytes;
        self
    }

    /// Sets the most bytes that the body of a message may have.
    pub fn max_message(mut self, bytes: u64) -> Self {
        self.max_message = bytes;
        self
    }

    /// Sets the most bytes that the compressed buffers of one message may have together when they
    /// are unpacked.
    pub fn max_unpacked(mut self, bytes: u64) -> Self {
        self.max_unpacked = bytes;
        self
    }

    /// Sets the most bytes that the dictionaries of a stream or of a file may have together.
    ///
    /// A reader keeps the values of a dictionary until other values replace them, and a dictionary
    /// may grow with each message. The bodies of the messages whose values are kept count, what
    /// was unpacked from them, and 256 bytes for each array of values. Once the parts of a
    /// dictionary that grows were put together, the result counts in their place. Dictionaries of
    /// columns that are not asked for are not kept, and do not count.
    pub fn max_dictionaries(mut self, bytes: u64) -> Self {
        self.max_dictionaries = bytes;
        self
    }

    /// Sets whether all data is checked on the host before a batch is returned, as
    /// [`Array::validate`](arrow_device::Array::validate) does. A batch with wrong data is then
    /// refused. This reads every byte.
    pub fn validate(mut self, validates: bool) -> Self {
        self.validates = validates;
        self
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How the buffers of a body are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// LZ4, in frames. Needs the feature `lz4`.
    Lz4,
    /// Zstandard. Needs the feature `zstd`.
    Zstd {
        /// The level, from 1, which is fastest, to 22, which is smallest. The default of Zstandard
        /// is 3.
        level: i32,
    },
}

/// Options of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    pub(crate) compression: Option<Compression>,
    pub(crate) alignment: u64,
    pub(crate) writes_deltas: bool,
    /// Bytes of host memory for a batch on a device, a power of two.
    pub(crate) staging: u64,
    pub(crate) cuts_views: bool,
}

impl WriteOptions {
    /// The defaults: no compression, buffers that begin at multiples of 64 bytes, dictionaries that
    /// grow as deltas, 16 MiB of host memory for data on devices, and whole data buffers of views.
    pub fn new() -> Self {
        Self {
            compression: None,
            alignment: 64,
            writes_deltas: true,
            staging: 16 << 20,
            cuts_views: false,
        }
    }

    /// Sets how each buffer is compressed. A buffer that does not become smaller is written
    /// uncompressed.
    pub fn compression(mut self, compression: Option<Compression>) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the alignment of buffers in a body: 8, 16, 32 or 64 bytes. Another number counts as the
    /// next larger one of these.
    pub fn alignment(mut self, bytes: u32) -> Self {
        self.alignment = u64::from(bytes.clamp(8, 64).next_power_of_two());
        self
    }

    /// Sets whether a dictionary that begins with all values of the dictionary before is written as
    /// a delta: only the values that were added. Some readers know replacement only. In a file,
    /// dictionaries always grow by deltas.
    pub fn deltas(mut self, writes_deltas: bool) -> Self {
        self.writes_deltas = writes_deltas;
        self
    }

    /// Sets how many bytes of host memory are used for a batch that the host cannot read: a power
    /// of two, 4 KiB at least, 16 MiB by default. Another number counts as the next lower power of
    /// two.
    ///
    /// A batch that fits is copied at once. A larger batch is read through two windows in turn,
    /// each half as large, in memory into which the device's driver copies fastest.
    pub fn staging(mut self, bytes: u64) -> Self {
        let bytes = bytes.clamp(4 << 10, 1 << 40);
        self.staging = 1 << bytes.ilog2();
        self
    }

    /// Sets whether slices in host memory are written with no more data than their views name. If
    /// not, a data buffer that one view of a slice names is written whole, as the data of all rows
    /// is for a part of a batch. Nothing changes for arrays with all elements of their buffers, and
    /// for batches that are written from the memory of a device.
    pub fn cut_views(mut self, cuts: bool) -> Self {
        self.cuts_views = cuts;
        self
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self::new()
    }
}
