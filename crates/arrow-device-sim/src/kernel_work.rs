//! Kernels in the engine: before the launch, after it, and their bytes while they run.

use std::fmt;

use arrow_device::Plain;
use arrow_device::driver::Spot;

use crate::span::Span;
use crate::track::Access;

pub(crate) type Run = Box<dyn FnOnce(&mut KernelMemory) + Send>;

/// A kernel that is about to be launched.
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) reads: Vec<(Spot, u64)>,
    pub(crate) writes: Vec<(Spot, u64)>,
    pub(crate) run: Run,
}

/// A kernel that was launched.
pub(crate) struct KernelWork {
    pub(crate) access: Access,
    /// The bytes that are read. A place that was reported as no memory is `None`.
    pub(crate) reads: Vec<(Option<Span>, u64)>,
    pub(crate) writes: Vec<(Option<Span>, u64)>,
    pub(crate) run: Run,
}

/// The bytes that a kernel declared, while it runs.
pub struct KernelMemory {
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
}

impl KernelMemory {
    /// Returns the bytes of the n-th `reads`, and nothing if there was no such call.
    pub fn input(&self, number: usize) -> &[u8] {
        self.inputs.get(number).map_or(&[], Vec::as_slice)
    }

    /// Returns the values of the n-th `reads`. Bytes behind the last whole value are left out.
    pub fn values<T: Plain>(&self, number: usize) -> Vec<T> {
        let bytes = self.input(number);
        let read = |chunk: &[u8]| {
            // SAFETY: the chunk has the size of `T`, any bytes of which are a value (`Plain`); the
            // read need not be aligned.
            unsafe { chunk.as_ptr().cast::<T>().read_unaligned() }
        };
        bytes.chunks_exact(size_of::<T>()).map(read).collect()
    }

    /// Returns the bytes of the n-th `writes`, as they are now, and nothing if there was no such
    /// call.
    pub fn output(&mut self, number: usize) -> &mut [u8] {
        self.outputs.get_mut(number).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Sets the values of the n-th `writes`, as far as they fit.
    pub fn set_values<T: Plain>(&mut self, number: usize, values: &[T]) {
        let len = size_of_val(values);
        // SAFETY: a slice of `Plain` values is that many initialised bytes, without padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), len) };
        self.output(number).iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }
}

impl fmt::Debug for KernelMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelMemory({} inputs, {} outputs)", self.inputs.len(), self.outputs.len())
    }
}
