//! Choices of readers and writers.

/// What a reader reads, and how much of it is believed.
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
    pub(crate) validates: bool,
}

impl ReadOptions {
    /// All columns, headers of up to 256 MiB, bodies of any length that is there, and compressed
    /// bodies that claim to be up to 16 GiB. Data is not validated.
    pub fn new() -> Self {
        Self {
            columns: None,
            max_header: 256 << 20,
            max_message: u64::MAX,
            max_unpacked: 16 << 30,
            validates: false,
        }
    }

    /// Only these columns, in this order. A number may occur twice.
    pub fn columns(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.columns = Some(columns.into_iter().collect());
        self
    }

    /// The most bytes that the header of a message may have.
    pub fn max_header(mut self, bytes: u64) -> Self {
        self.max_header = bytes;
        self
    }

    /// The most bytes that the body of a message may have.
    pub fn max_message(mut self, bytes: u64) -> Self {
        self.max_message = bytes;
        self
    }

    /// The most bytes that the compressed buffers of one message may become together.
    pub fn max_unpacked(mut self, bytes: u64) -> Self {
        self.max_unpacked = bytes;
        self
    }

    /// Checks all data on the host before a batch is returned, as
    /// [`Array::validate`](arrow_device::Array::validate) does, and refuses what is wrong. This
    /// reads every byte.
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
        /// 1 is fastest and 22 smallest; 3 is what the library has where nothing is said.
        level: i32,
    },
}

/// How a writer writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    pub(crate) compression: Option<Compression>,
    pub(crate) alignment: u64,
    pub(crate) writes_deltas: bool,
    /// Bytes of host memory for a batch on a device: a power of two.
    pub(crate) staging: u64,
}

impl WriteOptions {
    /// No compression, buffers that begin at multiples of 64, dictionaries that grow as deltas, 16
    /// MiB of host memory for what lies on devices.
    pub fn new() -> Self {
        Self { compression: None, alignment: 64, writes_deltas: true, staging: 16 << 20 }
    }

    /// Compresses each buffer. A buffer that does not become smaller is written as it is.
    pub fn compression(mut self, compression: Option<Compression>) -> Self {
        self.compression = compression;
        self
    }

    /// Where buffers begin in a body: at multiples of this, which is 8, 16, 32 or 64; other numbers
    /// count as the next larger one of these.
    pub fn alignment(mut self, bytes: u32) -> Self {
        self.alignment = u64::from(bytes.clamp(8, 64).next_power_of_two());
        self
    }

    /// Says whether a dictionary that begins with all values of the dictionary before is written as
    /// a delta, the values that were added. Some readers know replacement only; a file can have
    /// nothing but deltas.
    pub fn deltas(mut self, writes_deltas: bool) -> Self {
        self.writes_deltas = writes_deltas;
        self
    }

    /// How many bytes of host memory a batch passes through that the host cannot read: 16 MiB
    /// without this, 4 KiB at least, and a power of two; other numbers count as the next lower
    /// one.
    ///
    /// A batch that fits is copied at once. A larger one is read in two windows in turn, each half
    /// as large, of memory that the device's driver reads into fastest.
    pub fn staging(mut self, bytes: u64) -> Self {
        let bytes = bytes.clamp(4 << 10, 1 << 40);
        self.staging = 1 << bytes.ilog2();
        self
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self::new()
    }
}
