//! Memory that other processes can open: each allocation is a file of its own, whose length is
//! sealed and whose pages take the place of the simulator's own.
//!
//! The software devices of all processes are one domain: any of them opens the memory of any other.
//! What the other process does with its memory is judged there and not here.

use arrow_device::driver::{
    MemoryHandle, OpenedMemory, Raw, SharedPlace, SharedUse, Sharing, SharingDomain,
};
use arrow_device::{Error, ErrorKind, Memory, Queue, Result};

use crate::allocate::Source;
use crate::allocation::Placement;
use crate::driver::SimDriver;
use crate::engine::EngineState;

// SAFETY: `allocate` gives what the driver's `allocate` gives, over pages of a file of its own.
// `find` knows the allocations of the engine that have such a file. `open` lays a file over a range
// of its own only if the file's length is sealed and no shorter than the range, so every byte can
// be read until `close`. Nothing is said to be fixed.
unsafe impl Sharing for SimDriver {
    fn domain(&self) -> SharingDomain {
        SharingDomain { way: "software", device: *b"arrow-device-sim" }
    }

    unsafe fn allocate(
        &self,
        len: u64,
        queue: Option<Raw<Queue>>,
        _used: SharedUse,
    ) -> Result<Raw<Memory>> {
        let (site, device) = (self.engine.site(), self.device);
        let (source, placement) = (Source::Shareable, Placement::Device);
        self.engine.submit(|state| state.allocate_from(source, device, len, placement, queue, site))
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        self.engine.with(|state| state.find_shared(place))
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        if fixed {
            let message = "memory of the software device cannot be fixed";
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.during("export memory").on_device(self.id));
        }
        let handle = self.engine.with(|state| state.handle_of(memory)).unwrap_or_else(|| {
            let message = "the memory was not allocated to be shared";
            Err(Error::new(ErrorKind::InvalidArgument, message))
        });
        handle.map_err(|error| error.during("export memory").on_device(self.id))
    }

    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        let refused = |message: &'static str| {
            Error::new(ErrorKind::Malformed, message).during("open memory").on_device(self.id)
        };
        let Some(file) = handle.descriptor.filter(|_| handle.note.is_empty()) else {
            return Err(refused("this memory is shared by a descriptor without a note"));
        };
        let (site, device) = (self.engine.site(), self.device);
        let (source, placement) = (Source::Opened(file), Placement::Device);
        let opened = self
            .engine
            .submit(|state| state.allocate_from(source, device, len, placement, None, site));
        match opened {
            Ok(memory) => Ok(OpenedMemory { memory, is_fixed: false }),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                Err(refused("the descriptor is not of as much sealed memory, or there is no room"))
            }
            Err(error) => Err(error),
        }
    }

    unsafe fn close(&self, memory: Raw<Memory>, len: u64) {
        let site = self.engine.site();
        self.engine.with(|state| state.free(memory, len, site));
    }
}

impl EngineState {
    /// The allocation that a place lies in, if other processes can open it.
    fn find_shared(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        let (number, offset, _) = self.inside(place)?;
        let allocation = &self.allocations[number];
        let block = allocation.block.as_ref().filter(|block| block.file().is_some())?;
        Some(SharedPlace {
            memory: Raw::from_ptr(block.address().cast()),
            offset,
            len: allocation.len,
            can_be_fixed: false,
        })
    }

    /// A handle of memory that can be shared.
    fn handle_of(&self, memory: Raw<Memory>) -> Option<Result<MemoryHandle>> {
        let number = self.by_address.get(&memory.bits())?;
        let block = self.allocations[*number].block.as_ref()?;
        block.file().map(|file| Ok(file.handle()))
    }
}
