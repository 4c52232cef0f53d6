//! Kernels: closures that stand for work on the device, and declare what they read and write.

use std::fmt;

use arrow_device::driver::Spot;
use arrow_device::{Queue, Result};

use crate::Sim;
use crate::kernel_work::{KernelMemory, Launch};
use crate::site::Site;

/// Work of the user, to be launched on a queue. [`Sim::kernel`] makes it.
///
/// A kernel declares what it reads and what it writes, and gets only that when it runs. It runs
/// when somebody waits for it, on the waiting thread, so it must not wait for this device itself.
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

    /// Declares that the kernel reads these bytes. It finds them as [`KernelMemory::input`] with
    /// the number of this call, from 0.
    pub fn reads(mut self, spot: Spot, len: u64) -> Self {
        self.reads.push((spot, len));
        self
    }

    /// Declares that the kernel writes these bytes. It finds them as [`KernelMemory::output`] with
    /// the number of this call, from 0.
    ///
    /// To change bytes in place, declare them here and with [`reads`](Self::reads).
    pub fn writes(mut self, spot: Spot, len: u64) -> Self {
        self.writes.push((spot, len));
        self
    }

    /// Submits the kernel to a queue of this simulator.
    #[track_caller]
    pub fn launch(
        self,
        queue: &Queue,
        run: impl FnOnce(&mut KernelMemory) + Send + 'static,
    ) -> Result<()> {
        let site = Site::caller();
        let launch =
            Launch { name: self.name, reads: self.reads, writes: self.writes, run: Box::new(run) };
        self.sim.engine().submit(|state| state.launch(queue.raw(), launch, site))
    }
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({:?})", self.name)
    }
}
