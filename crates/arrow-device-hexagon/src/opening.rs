//! [`Opening`]: what a device is opened with.

use std::sync::Arc;

use crate::{Functions, Ring};

/// When memory is mapped into the address space of the DSP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Not by this crate. FastRPC maps the buffers that are arguments of a call, and an application
    /// maps what it wants by itself.
    #[default]
    ByTheApplication,
    /// By `fastrpc_mmap` with `FASTRPC_MAP_FD`, from its allocation until it is freed. A `dspqueue`
    /// takes no other memory. The application has to have an open session with the domain.
    WhileAllocated,
}

/// What a device is opened with, for [`open_with`](crate::open_with).
#[derive(Clone, Debug)]
pub struct Opening {
    pub(crate) domain: u32,
    pub(crate) functions: Option<Functions>,
    pub(crate) mapping: Mapping,
    pub(crate) ring: Option<Arc<dyn Ring>>,
}

impl Opening {
    /// A device of this domain, with the functions of Qualcomm's library, without a ring, whose
    /// memory is mapped by the application.
    pub fn new(domain: u32) -> Self {
        Self { domain, functions: None, mapping: Mapping::default(), ring: None }
    }

    /// Sets the command ring that the device's queues stand for.
    #[must_use]
    pub fn with_ring(mut self, ring: Arc<dyn Ring>) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Sets when memory is mapped for the DSP.
    #[must_use]
    pub fn with_mapping(mut self, mapping: Mapping) -> Self {
        self.mapping = mapping;
        self
    }

    /// Sets the functions that memory is allocated with, in place of those of the library that this
    /// crate loads: those that the application has linked, or has loaded by itself. In a child of
    /// `fork` whose parent has opened a device, they open no device either.
    ///
    /// # Safety
    /// The functions are those of one library, or do what those do, and can be called on any thread
    /// as long as anything of the device is there (UNS-29, UNS-31).
    #[must_use]
    pub unsafe fn with_functions(mut self, functions: Functions) -> Self {
        self.functions = Some(functions);
        self
    }
}
