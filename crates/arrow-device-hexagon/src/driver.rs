//! The [`Driver`] of memory that a Hexagon DSP shares.
//!
//! * Memory is an allocation of `rpcmem`, whose address the processor uses like any other. Its
//!   descriptor is asked for at once and kept in the [`table`].
//! * A queue is a number. All queues stand for the one ring, or for the processor where there is no
//!   ring. The processor has done its work whenever a call returns.
//! * An event is a [`Mark`]: the ring and the number of its newest command at that time. The event
//!   of a device without a ring has passed.
//! * A copy waits for the ring, and is then made by the processor.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Filled, HostAccess, Properties, Raw, Readiness, Region, Route, Runtime,
    Spot, SyncEvent, Waiting, WaitingCopies, may_not_wait,
};
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::table::{self, Allocated};
use crate::{Functions, Mapping, Opening, Progress, Ring, functions, out_of_memory};

/// `RPCMEM_HEAP_ID_SYSTEM`.
const SYSTEM_HEAP: c_int = 25;
/// `RPCMEM_DEFAULT_FLAGS`: cached memory.
const CACHED: u32 = 1;
/// `FASTRPC_MAP_FD`.
const MAP_FD: c_int = 2;
/// `AEE_ENOMEMORY`, as FastRPC's functions return it.
const NO_MEMORY: c_int = 2;
/// The length of the DSP's vectors. Memory of `rpcmem` begins at a page.
const ALIGNMENT: usize = 128;

/// What the handle of an event points to.
#[derive(Debug)]
struct Mark {
    ring: Option<Arc<dyn Ring>>,
    number: u64,
}

#[derive(Debug)]
pub(crate) struct HexagonDriver {
    id: DeviceId,
    domain: c_int,
    functions: Functions,
    /// The functions that map memory, where this driver maps.
    mapping: Option<(crate::Mmap, crate::Munmap)>,
    ring: Option<Arc<dyn Ring>>,
    properties: Properties,
}

impl HexagonDriver {
    pub(crate) fn new(opening: Opening) -> Result<Self> {
        let id = DeviceId::new(DeviceType::HEXAGON, opening.domain.into());
        let refused =
            |kind, message: &'static str| Error::new(kind, message).during("open").on_device(id);
        let domain = c_int::try_from(opening.domain)
            .map_err(|_| refused(ErrorKind::InvalidArgument, "no domain has such a number"))?;
        let functions = match opening.functions {
            Some(functions) => functions::enter().map(|()| functions),
            None => functions::load(),
        };
        let functions = functions.map_err(|error| error.on_device(id))?;
        let mapping = match (opening.mapping, functions.fastrpc_mmap, functions.fastrpc_munmap) {
            (Mapping::ByTheApplication, ..) => None,
            (Mapping::WhileAllocated, Some(map), Some(unmap)) => Some((map, unmap)),
            (Mapping::WhileAllocated, ..) => {
                let message = "the library lacks `fastrpc_mmap` or `fastrpc_munmap`; let the application map memory";
                return Err(refused(ErrorKind::Unsupported, message));
            }
        };
        let ring = opening.ring;
        let waiting = if ring.is_some() { WaitingCopies::All } else { WaitingCopies::None };
        let properties = Properties::new(format!("memory of the Hexagon DSP of domain {domain}"))
            .with_alignment(ALIGNMENT)
            .with_host_access(HostAccess::Mapped)
            .with_readiness(Readiness::HostWait)
            .with_separate(true)
            .with_waiting_copies(waiting);
        Ok(Self { id, domain, functions, mapping, ring, properties })
    }

    fn lost(&self) -> Error {
        let message = "the session with the DSP has ended; open the device with a new ring";
        Error::new(ErrorKind::DeviceLost, message).on_device(self.id)
    }

    /// An error where the ring is lost.
    fn require_ring(&self) -> Result<()> {
        let is_lost = self.ring.as_ref().is_some_and(|ring| ring.is_lost());
        if is_lost { Err(self.lost()) } else { Ok(()) }
    }

    /// Says of the commands of a ring up to a number whether they are done.
    ///
    /// A command may end between the question for it and the question for the loss of the ring.
    /// After the loss no command goes on, so the answer to a second question is final.
    fn answer(&self, ring: &dyn Ring, number: u64, progress: Progress) -> Result<bool> {
        let is_lost = progress == Progress::Pending && ring.is_lost();
        match if is_lost { ring.progress(number) } else { progress } {
            Progress::Completed => Ok(true),
            Progress::Pending if is_lost => Err(self.lost()),
            Progress::Pending => Ok(false),
            Progress::Failed => {
                let message = "a command of the DSP failed; its results are not there";
                Err(Error::new(ErrorKind::WorkFailed, message).on_device(self.id))
            }
        }
    }

    /// Waits for all that was submitted to the ring.
    fn finish(&self) -> Result<()> {
        self.require_ring()?;
        let Some(ring) = &self.ring else { return Ok(()) };
        let number = ring.submitted();
        let is_done = self.answer(&**ring, number, ring.wait(number, None))?;
        if is_done { Ok(()) } else { Err(may_not_wait(self.id)) }
    }

    /// Allocates memory without an entry in the table.
    fn allocate_raw(&self, len: u64) -> Result<NonNull<c_void>> {
        let refused = || out_of_memory(len).on_device(self.id);
        let address = match (self.functions.rpcmem_alloc2, c_int::try_from(len)) {
            (Some(allocate), _) => {
                let size = usize::try_from(len).map_err(|_| refused())?;
                // SAFETY: UNS-31: the function allocates memory of any size, or returns null.
                unsafe { allocate(SYSTEM_HEAP, CACHED, size) }
            }
            (None, Ok(size)) => {
                // SAFETY: UNS-31: the function allocates memory of this size, or returns null.
                unsafe { (self.functions.rpcmem_alloc)(SYSTEM_HEAP, CACHED, size) }
            }
            (None, Err(_)) => return Err(refused()),
        };
        NonNull::new(address).ok_or_else(refused)
    }

    /// Finds the descriptor of fresh memory, and maps the memory for the DSP if that is wanted.
    fn make_known(&self, address: NonNull<c_void>, len: u64) -> Result<c_int> {
        let failed = |message: &'static str| {
            Error::new(ErrorKind::Driver, message).during("allocate").on_device(self.id)
        };
        // SAFETY: UNS-31: the function looks the address up in its list.
        let descriptor = unsafe { (self.functions.rpcmem_to_fd)(address.as_ptr()) };
        if descriptor < 0 {
            return Err(failed("the library has no file descriptor for memory that it allocated"));
        }
        if !address.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return Err(failed("the library allocated memory that does not begin at a page"));
        }
        let Some((map, _)) = self.mapping else { return Ok(descriptor) };
        // SAFETY: UNS-31: the memory has this length and descriptor, and is mapped once.
        let code =
            unsafe { map(self.domain, descriptor, address.as_ptr(), 0, len as usize, MAP_FD) };
        if code == 0 {
            return Ok(descriptor);
        }
        let kind = if code == NO_MEMORY { ErrorKind::OutOfMemory } else { ErrorKind::Driver };
        let message = "the memory cannot be mapped for the DSP; the application has to have a \
                       session with its domain";
        let error = Error::new(kind, message).during("map for the DSP").on_device(self.id);
        Err(error.from_vendor(code.into(), "a code of FastRPC's"))
    }
}

/// Returns the address of a spot.
fn address(spot: Spot) -> *mut u8 {
    let offset = usize::try_from(spot.offset).unwrap_or(usize::MAX);
    spot.base.as_ptr().cast::<u8>().wrapping_add(offset)
}

/// # Safety
/// The event is one that a driver of this crate recorded, and is alive as long as the result.
unsafe fn mark<'event>(event: Raw<Event>) -> &'event Mark {
    // SAFETY: the handle is the address of a box of `record`, alive as the caller promises.
    unsafe { &*event.as_ptr().cast::<Mark>() }
}

// SAFETY: memory is an allocation of `rpcmem` of its own until `rpcmem_free`. What this driver does
// itself is done inside the call. What the application submits is in the order of the ring, by the
// contract of `Ring`; a mark stands for all commands up to the newest; `synchronize` and `copy`
// wait for the newest command, and `wait` says that the host must wait unless the mark is of the
// same ring or has passed. `map` gives the address itself, where finished work is visible by the
// contract of `Ring`.
unsafe impl Driver for HexagonDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    /// A mark names its ring, so every driver of this crate can ask about it.
    fn runtime(&self) -> Runtime {
        Runtime { name: "hexagon", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.require_ring()?;
        let memory = self.allocate_raw(len)?;
        match self.make_known(memory, len) {
            Ok(descriptor) => {
                let allocated = Allocated { len, descriptor, device: self.id };
                table::add(memory.as_ptr().addr(), allocated);
                Ok(Raw::from_ptr(memory.as_ptr()))
            }
            Err(error) => {
                // SAFETY: UNS-31: the memory was just allocated, and nobody knows it.
                unsafe { (self.functions.rpcmem_free)(memory.as_ptr()) };
                Err(error)
            }
        }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // Before the memory is given back: another thread may get the address at once.
        let known = table::remove(memory.as_ptr().addr());
        if let (Some((_, unmap)), Some(known)) = (self.mapping, known) {
            // A mapping that does not end, as after the end of the session, is gone with it.
            // SAFETY: UNS-31: `make_known` mapped these bytes by this descriptor.
            let _ = unsafe { unmap(self.domain, known.descriptor, memory.as_ptr(), len as usize) };
        }
        // SAFETY: UNS-22: `allocate` gave it, and nothing uses it any more.
        unsafe { (self.functions.rpcmem_free)(memory.as_ptr()) };
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        self.require_ring()?;
        Ok(Raw::from_bits(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        self.finish()
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        self.require_ring()?;
        let Some(ring) = &self.ring else { return Ok(true) };
        let number = ring.submitted();
        self.answer(&**ring, number, ring.progress(number))
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: `record` made it from a box, and nobody uses it after this.
            drop(unsafe { Box::from_raw(event.as_ptr().cast::<Mark>()) });
        }
    }

    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        self.require_ring()?;
        let number = self.ring.as_ref().map_or(0, |ring| ring.submitted());
        let mark = Mark { ring: self.ring.clone(), number };
        Ok(Raw::from_ptr(Box::into_raw(Box::new(mark)).cast()))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.require_ring()?;
        // SAFETY: UNS-22, which the caller keeps: the event is alive.
        let mark = unsafe { mark(event) };
        let Some(ring) = &mark.ring else { return Ok(Waiting::Queued) };
        let is_own = self.ring.as_ref().is_some_and(|own| Arc::ptr_eq(own, ring));
        // Nothing here can wait for the commands of another ring. That such a ring has failed or is
        // lost is found out by the wait of the host.
        let has_passed = || ring.progress(mark.number) == Progress::Completed;
        Ok(if is_own || has_passed() { Waiting::Queued } else { Waiting::HostMustWait })
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps: the event is alive.
        let mark = unsafe { mark(event) };
        let Some(ring) = &mark.ring else { return Ok(true) };
        self.answer(&**ring, mark.number, ring.progress(mark.number))
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps: the event is alive.
        let mark = unsafe { mark(event) };
        let Some(ring) = &mark.ring else { return Ok(true) };
        self.answer(&**ring, mark.number, ring.wait(mark.number, timeout))
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(no_events(self.id))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(no_events(self.id))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, _route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.finish().map_err(|error| error.during("copy"))?;
        for region in regions {
            let len = usize::try_from(region.len).map_err(|_| out_of_memory(region.len))?;
            let (from, to) = (address(region.from), address(region.to));
            // SAFETY: UNS-21, which the caller keeps: both sides hold `len` bytes and do not
            // overlap, and the commands that came before are done.
            unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to, len) };
        }
        Ok(())
    }

    unsafe fn map(&self, spot: Spot, _len: u64) -> Result<NonNull<u8>> {
        in_place(spot)
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        // Nothing uses the memory yet, so there is nothing to wait for.
        in_place(spot).map(Some)
    }

    /// A command that is submitted later sees the bytes, by the contract of [`Ring`].
    unsafe fn unmap_filled(
        &self,
        _queue: Raw<Queue>,
        _spot: Spot,
        _len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        Ok(Filled::Now)
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let address = base.as_ptr().addr();
        Ok(table::find(address).map(|(start, found)| {
            let remaining = found.len - (address - start) as u64;
            Allocation { device: found.device, remaining }
        }))
    }
}

/// Returns the address of memory that the processor uses in place.
fn in_place(spot: Spot) -> Result<NonNull<u8>> {
    NonNull::new(address(spot))
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "there is nothing at a null address"))
}

fn no_events(device: DeviceId) -> Error {
    let message = "memory of a Hexagon DSP is exchanged without events: `sync_event` is null";
    Error::new(ErrorKind::Unsupported, message).on_device(device)
}
