//! Kernels: a closure that stands for work on the device, and says what it reads and writes.

use std::fmt;

use arrow_device::driver::Spot;
use arrow_device::{Plain, Queue, Result};

use crate::queue::Part;
use crate::site::Site;
use crate::track::Access;
use crate::{Sim, submit};

/// Work of the user's own, to be launched on a queue. Made by [`Sim::kernel`].
///
/// It says what it reads and what it writes, and gets just that when it runs. It runs when somebody waits for
/// it, on that thread, so it must not wait for this device itself.
#[must_use = "nothing happens until it is launched"]
pub struct Kernel<'sim> {
    sim: &'sim Sim,
    name: String,
    reads: Vec<(Spot, u64)>,
    writes: Vec<(Spot, u64)>,
}

impl<'sim> Kernel<'sim> {
    pub(crate) fn new(sim: &'sim Sim, name: String) -> Self {
        Self { sim, name, reads: Vec::new(), writes: Vec::new() }
    }

    /// It reads these bytes. It finds them as [`KernelMemory::input`] with the number of this call, from 0.
    pub fn reads(mut self, spot: Spot, len: u64) -> Self {
        self.reads.push((spot, len));
        self
    }

    /// It writes these bytes. It finds them as [`KernelMemory::output`] with the number of this call, from 0.
    ///
    /// To change bytes in place, name them here and in [`reads`](Self::reads).
    pub fn writes(mut self, spot: Spot, len: u64) -> Self {
        self.writes.push((spot, len));
        self
    }

    /// Submits it to a queue of this simulator.
    #[track_caller]
    pub fn launch(
        self,
        queue: &Queue,
        run: impl FnOnce(&mut KernelMemory) + Send + 'static,
    ) -> Result<()> {
        let site = Site::caller();
        let launch = submit::Launch {
            name: self.name,
            reads: self.reads,
            writes: self.writes,
            run: Box::new(run),
        };
        self.sim.engine().with(|state| state.launch(queue.raw(), launch, site))
    }
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({:?})", self.name)
    }
}

pub(crate) type Run = Box<dyn FnOnce(&mut KernelMemory) + Send>;

/// A kernel that was launched.
pub(crate) struct KernelWork {
    pub(crate) access: Access,
    /// `None` for what was reported as no memory.
    pub(crate) reads: Vec<(Option<Part>, u64)>,
    pub(crate) writes: Vec<(Option<Part>, u64)>,
    pub(crate) run: Run,
}

/// The bytes that a kernel said it uses, while it runs.
pub struct KernelMemory {
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
}

impl KernelMemory {
    /// The bytes of the n-th `reads`. Empty where there was no such call.
    pub fn input(&self, number: usize) -> &[u8] {
        self.inputs.get(number).map_or(&[], Vec::as_slice)
    }

    /// The values of the n-th `reads`. Bytes behind the last whole value are left out.
    pub fn values<T: Plain>(&self, number: usize) -> Vec<T> {
        let bytes = self.input(number);
        let read = |chunk: &[u8]| {
            // SAFETY: the chunk has the size of `T`, any bytes of which are a value (`Plain`); the read need not
            // be aligned.
            unsafe { chunk.as_ptr().cast::<T>().read_unaligned() }
        };
        bytes.chunks_exact(size_of::<T>()).map(read).collect()
    }

    /// The bytes of the n-th `writes`, as they are now. Empty where there was no such call.
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
