//! [`FileReader`]: the file format.
//!
//! A file ends with a table of its messages. Opening a file reads that table and the dictionaries.
//! A batch is read when it is asked for. Where only some columns are asked for, only their bytes
//! are read: the places of their buffers are found in the header, and places that are near each
//! other are read at once. What must stay true: an entry of the table lies inside the file, and no
//! more than [`STEP`] bytes of memory are taken for bytes of which the last one was not read
//! before.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_device::{
    ArrayStream, Batch, Buffer, DeviceType, Error, ErrorKind, Metadata, Queue, Result, Schema,
};
use arrow_ipc as fb;

use crate::decoder::Columns;
use crate::file_writer::MAGIC;
use crate::framing::{
    CONTINUATION, HostMemory, STEP, body_len, first_missing, header_len, verified, verifier_limits,
};
use crate::options::ReadOptions;
use crate::problem::{limited, malformed, no_memory, not_read, within};
use crate::ranges::{Body, joined};
use crate::schema_from;

/// A source of bytes that can be read at any place, by several threads at once.
pub trait ReadAt: Send + Sync {
    /// Returns how many bytes there are.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `bytes` with the bytes from `offset` on. It is an error if there are fewer.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    bytes = bytes.get_mut(count..).unwrap_or_default();
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        use std::io::{Read as _, Seek as _};

        // Nothing else moves the position of this handle: the platform has one thread.
        let mut file = self;
        file.seek(io::SeekFrom::Start(offset))?;
        file.read_exact(bytes)
    }
}

/// Where the bytes of a file come from.
enum FileBytes {
    At(Box<dyn ReadAt>),
    Memory(HostMemory),
}

impl FileBytes {
    fn len(&self) -> Result<u64> {
        match self {
            Self::At(file) => file.len().map_err(not_read),
            Self::Memory(memory) => Ok(memory.len()),
        }
    }

    /// Returns a copy of some bytes. The caller has compared their end with the length of the file.
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        match self {
            Self::At(file) => {
                let fill = |bytes: &mut [u8], offset| {
                    file.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => {
                            let end = offset.saturating_add(bytes.len() as u64);
                            malformed(format!("the file ends before byte {end}"))
                        }
                        _ => not_read(error),
                    })
                };
                // A file may be shorter than its length says, so the last byte is read before more
                // than `STEP` bytes of memory are taken.
                if len > STEP {
                    fill(&mut [0], offset.saturating_add(len - 1))?;
                }
                let room = usize::try_from(len).map_err(|_| no_memory(len))?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(room).map_err(|_| no_memory(len))?;
                bytes.resize(room, 0);
                fill(&mut bytes, offset)?;
                Ok(bytes)
            }
            Self::Memory(memory) => {
                let bytes = memory.with(offset, len, <[u8]>::to_vec)?;
                bytes
                    .ok_or_else(|| malformed(format!("the file ends before byte {}", offset + len)))
            }
        }
    }

    /// Returns some bytes: a slice of the memory where the file lies in memory, otherwise a copy.
    fn part(&self, offset: u64, len: u64) -> Result<Buffer> {
        match self {
            Self::At(_) => self.read(offset, len).map(Buffer::from),
            Self::Memory(memory) => memory.part(offset, len),
        }
    }
}

/// Where a message lies in a file.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    /// The length of the header and of the marks before it.
    header: u64,
    body: u64,
}

/// Reads the file format. Clones read the same file.
///
/// ```no_run
/// use arrow_device::Queue;
/// use arrow_device_ipc::{FileReader, ReadOptions};
///
/// let file = FileReader::open("taxi.arrow", ReadOptions::new().columns([1]))?;
/// // For a copy to a GPU, name a queue of the GPU.
/// let queue = Queue::host();
/// let last = file.batch_count().saturating_sub(1);
/// let batch = file.batch(last)?.copy_to(&queue)?;
/// println!("{} of {} rows", batch.row_count(), file.row_count()?);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct FileReader {
    inner: Arc<OpenFile>,
}

struct OpenFile {
    bytes: FileBytes,
    columns: Columns,
    batches: Vec<Block>,
    metadata: Metadata,
    options: ReadOptions,
}

impl FileReader {
    /// Opens a file, and reads its table and its dictionaries.
    pub fn open(path: impl AsRef<Path>, options: ReadOptions) -> Result<Self> {
        Self::new(File::open(path).map_err(not_read)?, options)
    }

    /// Reads from any source of bytes that can be read at any place, and not only from a file.
    pub fn new(file: impl ReadAt + 'static, options: ReadOptions) -> Result<Self> {
        Self::of(FileBytes::At(Box::new(file)), options)
    }

    /// Reads a file that lies in host memory, for example a mapped file. Nothing is copied. The
    /// memory is kept as long as an array that uses it.
    ///
    /// Whoever maps a file promises that no process makes the file shorter as long as the buffer is
    /// used (UNS-17): reading bytes that the file has lost ends the process.
    pub fn in_memory(bytes: Buffer, options: ReadOptions) -> Result<Self> {
        Self::of(FileBytes::Memory(HostMemory::new(bytes)?), options)
    }

    fn of(bytes: FileBytes, options: ReadOptions) -> Result<Self> {
        let len = bytes.len()?;
        let (marks, length) = (MAGIC.len() as u64, 4);
        if len < 2 * marks + length {
            return Err(malformed(format!("{len} bytes are no Arrow file")));
        }
        let end = bytes.read(len - marks - length, marks + length)?;
        let (footer_len, mark) = (end.first_chunk().copied(), end.get(4..));
        if bytes.read(0, marks)? != MAGIC || mark != Some(MAGIC) {
            let message = "an Arrow file begins and ends with `ARROW1`; a stream does not, and a file that was not finished has no end";
            return Err(malformed(message));
        }
        let footer_len = i32::from_le_bytes(footer_len.unwrap_or_default());
        let footer_len = u64::try_from(footer_len).ok();
        let footer_len = footer_len.filter(|footer| *footer <= len - 2 * marks - length);
        let footer_len =
            footer_len.ok_or_else(|| malformed("the table at the end is not there"))?;
        if footer_len > options.max_header {
            let most = options.max_header;
            return Err(limited(format!("a table of {footer_len} bytes, and {most} are allowed")));
        }
        let footer = bytes.read(len - marks - length - footer_len, footer_len)?;
        let footer = fb::root_as_footer_with_opts(&verifier_limits(footer.len()), &footer)
            .map_err(|error| malformed(format!("the table at the end is broken: {error}")))?;
        let schema = footer.schema().ok_or_else(|| malformed("the file has no schema"))?;
        let columns = Columns::of(schema, &options)?;
        let batches = blocks(footer.recordBatches(), len)?;
        let dictionaries = blocks(footer.dictionaries(), len)?;
        // A dictionary adds to what the messages before it brought, so no message may be named
        // twice.
        let bytes_of = |block: &Block| block.header.saturating_add(block.body);
        let together = dictionaries.iter().map(bytes_of).fold(0, u64::saturating_add);
        if together > len {
            return Err(malformed("the table at the end names bytes of dictionaries twice"));
        }
        let metadata = schema_from::metadata(footer.custom_metadata())?;
        let mut open = OpenFile { bytes, columns, batches, metadata, options };
        for (number, block) in dictionaries.into_iter().enumerate() {
            let taken = open.take_dictionary(block);
            taken.map_err(|error| within(error, &format!("dictionary message {number}")))?;
        }
        open.columns.put_together()?;
        Ok(Self { inner: Arc::new(open) })
    }

    /// Returns the schema of the batches: the columns that are asked for.
    pub fn schema(&self) -> &Schema {
        self.inner.columns.schema()
    }

    /// Returns the custom metadata of the file, which is not part of the schema.
    pub fn metadata(&self) -> &Metadata {
        &self.inner.metadata
    }

    /// Returns how many batches there are.
    pub fn batch_count(&self) -> usize {
        self.inner.batches.len()
    }

    /// Returns how many rows all batches have together. Reads the header of each batch once.
    pub fn row_count(&self) -> Result<u64> {
        let rows_of = |block: Block| -> Result<Option<u64>> {
            let header = self.inner.header(block)?;
            let batch = verified(&header)?.header_as_record_batch();
            Ok(batch.and_then(|batch| u64::try_from(batch.length()).ok()))
        };
        // A table may name one header many times. Headers that lie in each other have any number of
        // bytes, in a small file.
        let mut known: HashMap<(u64, u64), Option<u64>> = HashMap::new();
        let len = self.inner.bytes.len()?;
        let mut left = len;
        let mut all = 0_u64;
        for (number, block) in self.inner.batches.iter().enumerate() {
            let rows = match known.entry((block.offset, block.header)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(room) => {
                    let end = block.offset.checked_add(block.header);
                    // Behind the end, where the file was cut meanwhile, the read is refused.
                    if end.is_some_and(|end| end <= len) {
                        left = left.checked_sub(block.header).ok_or_else(|| {
                            malformed("the table at the end names headers that lie in each other")
                        })?;
                    }
                    *room.insert(rows_of(*block)?)
                }
            };
            let sum = rows.and_then(|rows| all.checked_add(rows));
            all = sum.ok_or_else(|| {
                let message = format!("the file does not tell a number of rows at batch {number}");
                malformed(message)
            })?;
        }
        Ok(all)
    }

    /// Reads a batch by its number. Its buffers lie in memory that was read for it, or in the file
    /// where the file lies in memory.
    pub fn batch(&self, number: usize) -> Result<Batch> {
        let block = self.block(number)?;
        self.inner.batch(block).map_err(|error| within(error, &format!("batch {number}")))
    }

    /// Reads the custom metadata of a batch, by the number of the batch.
    pub fn batch_metadata(&self, number: usize) -> Result<Metadata> {
        let block = self.block(number)?;
        let read = || {
            let header = self.inner.header(block)?;
            schema_from::metadata(verified(&header)?.custom_metadata())
        };
        read().map_err(|error| within(error, &format!("batch {number}")))
    }

    fn block(&self, number: usize) -> Result<Block> {
        self.inner.batches.get(number).copied().ok_or_else(|| {
            let message =
                format!("batch {number} is asked for, and there are {}", self.batch_count());
            Error::new(ErrorKind::InvalidArgument, message).during("read IPC")
        })
    }

    /// Reads some of the batches into host memory, one after the other.
    pub fn batches(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = Result<Batch>> + Send + use<> {
        let file = self.clone();
        let end = range.end.min(file.batch_count());
        (range.start..end).map(move |number| file.batch(number))
    }

    /// Returns all batches as a stream in host memory.
    pub fn stream(&self) -> ArrayStream {
        let batches = self.batches(0..self.batch_count());
        ArrayStream::new(self.schema().clone(), DeviceType::CPU, batches)
    }

    /// Returns all batches as a stream on the device of this queue. Each batch is read and copied
    /// when it is asked for, in one allocation and one submission.
    pub fn on(&self, queue: &Queue) -> ArrayStream {
        let (device_type, queue) = (queue.device().id().device_type, queue.clone());
        let batches = self.batches(0..self.batch_count());
        let batches = batches.map(move |batch| batch?.copy_to(&queue));
        ArrayStream::new(self.schema().clone(), device_type, batches)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileReader({} batches of {})", self.batch_count(), self.schema())
    }
}

/// Reads the blocks of a table, and checks that they lie inside the file.
fn blocks(table: Option<flatbuffers::Vector<'_, fb::Block>>, file: u64) -> Result<Vec<Block>> {
    let block = |block: &fb::Block| {
        let numbers = (
            u64::try_from(block.offset()),
            u64::try_from(block.metaDataLength()),
            u64::try_from(block.bodyLength()),
        );
        let (Ok(offset), Ok(header), Ok(body)) = numbers else {
            return Err(malformed("the table at the end has a negative number"));
        };
        let end = offset.checked_add(header).and_then(|end| end.checked_add(body));
        match end {
            Some(end) if end <= file => Ok(Block { offset, header, body }),
            _ => Err(malformed("the table at the end names bytes behind the end of the file")),
        }
    };
    table.into_iter().flatten().map(block).collect()
}

impl OpenFile {
    /// Reads the header of a message, without the marks before it.
    fn header(&self, block: Block) -> Result<Vec<u8>> {
        if block.header > self.options.max_header {
            let (len, most) = (block.header, self.options.max_header);
            return Err(limited(format!("a header of {len} bytes, and {most} are allowed")));
        }
        let mut bytes = self.bytes.read(block.offset, block.header)?;
        let skipped = if bytes.starts_with(&CONTINUATION) { 4 } else { 0 };
        let length = bytes.get(skipped..).and_then(|rest| rest.first_chunk().copied());
        let length = length.ok_or_else(|| malformed("a message has no length"))?;
        let len = header_len(length, &self.options)?;
        let start = skipped as u64 + 4;
        if len > block.header - start {
            let there = block.header;
            return Err(malformed(format!("a header of {len} bytes, in a block of {there}")));
        }
        bytes.drain(..skipped + 4);
        Ok(bytes)
    }

    /// Returns the length of a body. The header says it, and the table says how much room there is.
    fn body_len(&self, block: Block, message: &fb::Message<'_>) -> Result<u64> {
        let len = body_len(message, &self.options)?;
        if len > block.body {
            let there = block.body;
            return Err(malformed(format!("a body of {len} bytes, in a block of {there}")));
        }
        Ok(len)
    }

    /// Adds to an error of reading a body, which begins at `start`: where the file has become
    /// shorter, the error also says which buffer is missing.
    #[cold]
    fn placed(&self, error: Error, message: &fb::Message<'_>, start: u64) -> Error {
        let there = match self.bytes.len() {
            Ok(len) if error.kind() == ErrorKind::Malformed => len.saturating_sub(start),
            _ => return error,
        };
        malformed(error.message().to_owned() + &first_missing(message, there))
    }

    fn batch(&self, block: Block) -> Result<Batch> {
        let header = self.header(block)?;
        let message = verified(&header)?;
        let len = self.body_len(block, &message)?;
        let start = block.offset + block.header;
        let body = match (&self.bytes, self.columns.places(&message)?) {
            (FileBytes::At(_), Some(places)) => {
                let mut parts = Vec::new();
                for range in joined(places) {
                    if range.end > len {
                        let end = range.end;
                        return Err(malformed(format!("a buffer ends at byte {end} of {len}")));
                    }
                    let part = self.bytes.part(start + range.start, range.end - range.start);
                    let part = part.map_err(|error| self.placed(error, &message, start))?;
                    parts.push((range.start, part));
                }
                Body::Parts { len, parts }
            }
            _ => {
                let whole = self.bytes.part(start, len);
                Body::Whole(whole.map_err(|error| self.placed(error, &message, start))?)
            }
        };
        self.columns.batch(&message, &body, &self.options)
    }

    fn take_dictionary(&mut self, block: Block) -> Result<()> {
        let header = self.header(block)?;
        let message = verified(&header)?;
        let len = self.body_len(block, &message)?;
        self.columns.admit_dictionary(&message, len)?;
        let start = block.offset + block.header;
        let body = self.bytes.part(start, len);
        let body = Body::Whole(body.map_err(|error| self.placed(error, &message, start))?);
        self.columns.take_dictionary(&message, &body, &self.options)
    }
}
