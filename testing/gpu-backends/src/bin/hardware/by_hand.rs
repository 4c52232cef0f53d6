//! The driver's functions, called by their names as a program calls them that has nothing else.

use std::ffi::c_void;

use arrow_device::{Queue, Result};
use libloading::Library;

/// A loaded driver. Calls that fail are panics, which the report notes.
pub(crate) struct Driver {
    library: Library,
    pub(crate) is_cuda: bool,
}

type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> i32;

impl Driver {
    /// Loads it, and makes the first device current on this thread.
    pub(crate) fn load(library: &str, is_cuda: bool) -> Self {
        // SAFETY: the driver's library, which the backend has loaded already.
        let library = unsafe { Library::new(library) }.unwrap();
        let driver = Self { library, is_cuda };
        if is_cuda {
            let mut context = 0_u64;
            driver.call("cuDevicePrimaryCtxRetain", &[out(&mut context), 0]);
            driver.call("cuCtxSetCurrent", &[context]);
        } else {
            driver.call("hipSetDevice", &[0]);
        }
        driver
    }

    /// The name of a function, of which the vendors have the same.
    pub(crate) fn name(&self, cuda: &'static str, hip: &'static str) -> &'static str {
        if self.is_cuda { cuda } else { hip }
    }

    /// Calls a function that takes at most six integers or addresses.
    #[track_caller]
    pub(crate) fn call(&self, name: &str, arguments: &[u64]) {
        let code = self.code(name, arguments);
        assert_eq!(code, 0, "{name} returned {code}");
    }

    /// The same with the code as the result.
    pub(crate) fn code(&self, name: &str, arguments: &[u64]) -> i32 {
        let mut words = [0; 6];
        words.iter_mut().zip(arguments).for_each(|(word, argument)| *word = *argument);
        let [a, b, c, d, e, f] = words;
        // SAFETY: on x86-64 and aarch64 a function finds its first six integers in registers, and
        // looks at no more of them than it has.
        let function = unsafe { self.library.get::<Function>(name.as_bytes()) }.unwrap();
        // SAFETY: the caller gives what the function of that name takes.
        unsafe { function(a, b, c, d, e, f) }
    }

    /// Has a stream begin to capture a graph: calls of other threads are not looked at.
    pub(crate) fn begin_capture(&self, queue: &Queue) {
        const OF_THIS_THREAD: u64 = 1;
        let name = self.name("cuStreamBeginCapture_v2", "hipStreamBeginCapture");
        self.call(name, &[stream(queue), OF_THIS_THREAD]);
    }

    /// Ends the capture; returns the graph as it can be launched.
    pub(crate) fn end_capture(&self, queue: &Queue) -> u64 {
        let [mut graph, mut launched] = [0_u64; 2];
        let name = self.name("cuStreamEndCapture", "hipStreamEndCapture");
        self.call(name, &[stream(queue), out(&mut graph)]);
        let name = self.name("cuGraphInstantiateWithFlags", "hipGraphInstantiate");
        self.call(name, &[out(&mut launched), graph]);
        self.call(self.name("cuGraphDestroy", "hipGraphDestroy"), &[graph]);
        launched
    }

    pub(crate) fn launch(&self, graph: u64, queue: &Queue) {
        self.call(self.name("cuGraphLaunch", "hipGraphLaunch"), &[graph, stream(queue)]);
    }

    pub(crate) fn destroy(&self, graph: u64) {
        self.call(self.name("cuGraphExecDestroy", "hipGraphExecDestroy"), &[graph]);
    }

    /// Copies within the device, in the order of a queue.
    pub(crate) fn copy(&self, to: *const c_void, from: *const c_void, len: usize, queue: &Queue) {
        let name = self.name("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync");
        self.call(name, &[to as u64, from as u64, len as u64, stream(queue)]);
    }

    /// Bytes of the device, once the queue has come that far.
    pub(crate) fn read(&self, from: *const c_void, len: usize, queue: &Queue) -> Result<Vec<u8>> {
        let mut bytes = vec![0_u8; len];
        let name = self.name("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
        self.call(name, &[bytes.as_mut_ptr() as u64, from as u64, len as u64, stream(queue)]);
        queue.synchronize()?;
        Ok(bytes)
    }

    /// Whether the driver says that a device can be given access to another one's memory.
    pub(crate) fn can_access(&self, device: usize, peer: usize) -> bool {
        let mut can = 0_i32;
        let name = self.name("cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer");
        self.call(name, &[out(&mut can), device as u64, peer as u64]);
        can != 0
    }
}

/// Where a function writes its result.
pub(crate) fn out<T>(place: &mut T) -> u64 {
    std::ptr::from_mut(place) as u64
}

pub(crate) fn stream(queue: &Queue) -> u64 {
    queue.raw().bits() as u64
}
