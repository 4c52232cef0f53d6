//! Memory of the producer's own, which counts what of it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::{Array, Buffer, DataType, DeviceId, HostArray, Result};

/// An allocator that counts its buffers.
#[derive(Default)]
pub(super) struct CountedMemory {
    alive: Arc<AtomicUsize>,
    made: AtomicUsize,
}

/// A buffer, which is counted as long as it is there.
struct CountedBuffer {
    bytes: Vec<u128>,
    alive: Arc<AtomicUsize>,
}

impl Drop for CountedBuffer {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CountedMemory {
    /// The same array, with every buffer in this memory.
    pub(super) fn keep(&self, array: &Array) -> Result<Array> {
        let host = array.host()?;
        let is_view = matches!(array.data_type(), DataType::BinaryView | DataType::Utf8View);
        // The last buffer of views is the sizes of the others, which the builder adds.
        let count = array.buffer_count() - usize::from(is_view);
        let buffers =
            (0..count).map(|index| self.copy(&host, index)).collect::<Result<Vec<_>>>()?;
        let children = (0..array.child_count())
            .map(|index| self.keep(&array.child(index)?))
            .collect::<Result<Vec<_>>>()?;
        let builder = Array::builder(array.field().clone())
            .len(array.len())
            .offset(array.offset())
            .null_count(array.null_count().unwrap_or(0))
            .buffers(buffers)
            .children(children);
        match array.dictionary() {
            Some(values) => builder.dictionary(self.keep(&values)?).finish_ready(),
            None => builder.finish_ready(),
        }
    }

    fn copy(&self, host: &HostArray, index: usize) -> Result<Option<Buffer>> {
        let bytes = host.buffer(index)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut words = Vec::with_capacity(bytes.len().div_ceil(16));
        for chunk in bytes.chunks(16) {
            let mut word = [0; 16];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            words.push(u128::from_ne_bytes(word));
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        self.alive.fetch_add(1, Ordering::AcqRel);
        let block = CountedBuffer { bytes: words, alive: self.alive.clone() };
        let base = block.bytes.as_ptr().cast();
        // SAFETY: so many bytes were put there just now, and nobody writes to them while the block
        // lives, which a `Vec` can be moved without being moved itself.
        let buffer = unsafe { Buffer::foreign(DeviceId::CPU, base, bytes.len() as u64, block) };
        Ok(Some(buffer))
    }

    /// How many buffers there were.
    pub(super) fn buffers_made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// How many buffers somebody still uses.
    pub(super) fn buffers_alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }
}
