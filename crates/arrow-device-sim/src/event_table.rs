//! The target of `sync_event`: a table of functions that any program can call without this library.
//!
//! `include/arrow_device/sim.h` declares the table for C. The table belongs to the producer. It
//! lives as long as the event, which lives as long as the array that shows it.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use arrow_device::driver::Raw;
use arrow_device::{Error, ErrorKind, Event, Result};

/// The type of [`EventTable::query`].
pub(crate) type Query = unsafe extern "C" fn(event: *const EventTable) -> c_int;
/// The type of [`EventTable::wait`].
pub(crate) type Wait = unsafe extern "C" fn(event: *const EventTable, nanoseconds: i64) -> c_int;
/// The type of [`EventTable::queue_wait`].
pub(crate) type QueueWait =
    unsafe extern "C" fn(event: *const EventTable, queue: *mut c_void) -> c_int;

/// An event of a software device, as it is shown in `ArrowDeviceArray.sync_event`.
///
/// The functions can be called on any thread, as long as the array that shows the event is not
/// released. They return 0 or an `errno` value.
#[repr(C)]
#[derive(Debug)]
pub struct EventTable {
    /// [`EventTable::MAGIC`]. With any other value this is not an event of a software device.
    pub magic: u64,
    /// [`EventTable::VERSION`]. A later version only adds members at the end.
    pub version: u32,
    /// The size of the table in bytes.
    pub size: u32,
    /// Asks whether the event has passed: 0 if so, `EAGAIN` if not yet. Does not wait.
    pub query: Option<unsafe extern "C" fn(event: *const EventTable) -> c_int>,
    /// Waits on the host until the event has passed, for at most `nanoseconds`. A negative number
    /// is no limit. Returns 0 if the event has passed, `ETIMEDOUT` if not.
    pub wait: Option<unsafe extern "C" fn(event: *const EventTable, nanoseconds: i64) -> c_int>,
    /// Makes a queue of the same simulator wait for the event. Returns `EXDEV` for any other queue;
    /// then wait on the host.
    pub queue_wait:
        Option<unsafe extern "C" fn(event: *const EventTable, queue: *mut c_void) -> c_int>,
    /// A pointer for the producer's own use.
    pub context: *mut c_void,
}

impl EventTable {
    /// The letters `ARROWSIM`.
    pub const MAGIC: u64 = u64::from_be_bytes(*b"ARROWSIM");
    /// The version of this declaration.
    pub const VERSION: u32 = 1;
    /// The value of [`magic`](Self::magic) once the event is destroyed.
    const GONE: u64 = u64::from_be_bytes(*b"DESTROYD");

    /// Returns the contents of an event's table while the event is alive.
    pub(crate) fn alive(
        query: Option<Query>,
        wait: Option<Wait>,
        queue_wait: Option<QueueWait>,
        context: *mut c_void,
    ) -> Self {
        let (magic, version, size) = (Self::MAGIC, Self::VERSION, size_of::<Self>() as u32);
        Self { magic, version, size, query, wait, queue_wait, context }
    }

    fn like(other: &Self) -> Self {
        Self::alive(other.query, other.wait, other.queue_wait, other.context)
    }

    /// Allocates a table with the contents of another one. Its address is the event's handle.
    pub(crate) fn allocate(alive: &Self) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self::like(alive))))
    }

    /// Makes a table alive again that was marked with [`end`](Self::end).
    ///
    /// # Safety
    /// `allocate` gave the table, and nobody else uses it.
    pub(crate) unsafe fn revive(table: NonNull<Self>, alive: &Self) {
        // SAFETY: `allocate` gave the table, and nobody else uses it, as the caller promises.
        unsafe { table.write(Self::like(alive)) }
    }

    /// Marks the event as destroyed, for a caller that still uses the table.
    ///
    /// # Safety
    /// `allocate` gave the table, and nobody else uses it.
    pub(crate) unsafe fn end(table: NonNull<Self>) {
        // SAFETY: `allocate` gave the table, and nobody else uses it, as the caller promises.
        unsafe { (*table.as_ptr()).magic = Self::GONE }
    }

    /// # Safety
    /// `allocate` gave the table, and it is not used after this.
    pub(crate) unsafe fn free(table: NonNull<Self>) {
        // SAFETY: `allocate` gave the table, and it is not used after this, as the caller promises;
        // `allocate` made it from a box.
        drop(unsafe { Box::from_raw(table.as_ptr()) });
    }
}

/// Checks that an address is that of a table, of this or of another library.
///
/// # Safety
/// `sync_event` points to the start of one, or at least to a readable `u64`.
pub(crate) unsafe fn check(sync_event: NonNull<c_void>) -> Result<()> {
    let table = sync_event.cast::<EventTable>();
    // SAFETY: `sync_event` points to the start of one, or at least to a readable `u64`, as the
    // caller promises; the magic number is the first member.
    let magic = unsafe { sync_event.cast::<u64>().read_unaligned() };
    let malformed = |message: &'static str| Err(Error::new(ErrorKind::Malformed, message));
    if magic == EventTable::GONE {
        return malformed("the event was destroyed: keep it until the array is released");
    }
    if magic != EventTable::MAGIC {
        return malformed("`sync_event` is no event of a software device");
    }
    // SAFETY: what begins with the magic number is a table.
    let EventTable { version, size, query, wait, .. } = unsafe { table.read() };
    if version == 0 || (size as usize) < size_of::<EventTable>() {
        return malformed("the event table is smaller than its version 1");
    }
    if query.is_none() || wait.is_none() {
        return malformed("the event table lacks `query` or `wait`");
    }
    Ok(())
}

/// Asks whether an event of another library has passed.
///
/// # Safety
/// `check` accepted the table, and the array that shows it is alive.
pub(crate) unsafe fn query_foreign(event: Raw<Event>) -> Result<bool> {
    let table = event.as_ptr().cast::<EventTable>();
    // SAFETY: `check` accepted the table, and the array that shows it is alive, as the caller
    // promises.
    let Some(query) = (unsafe { (*table).query }) else { return Ok(true) };
    // SAFETY: the table's own function, called with the table.
    match unsafe { query(table) } {
        0 => Ok(true),
        code if code == ErrorKind::NotReady.errno() => Ok(false),
        code => Err(foreign_error(code)),
    }
}

/// Waits for an event of another library.
///
/// # Safety
/// `check` accepted the table, and the array that shows it is alive.
pub(crate) unsafe fn wait_for_foreign(
    event: Raw<Event>,
    timeout: Option<Duration>,
) -> Result<bool> {
    let table = event.as_ptr().cast::<EventTable>();
    let limit = timeout.map_or(-1, |timeout| i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX));
    // SAFETY: `check` accepted the table, and the array that shows it is alive, as the caller
    // promises.
    let Some(wait) = (unsafe { (*table).wait }) else { return Ok(true) };
    // SAFETY: the table's own function, called with the table.
    match unsafe { wait(table, limit) } {
        0 => Ok(true),
        code if code == ErrorKind::TimedOut.errno() => Ok(false),
        code => Err(foreign_error(code)),
    }
}

fn foreign_error(code: c_int) -> Error {
    let kind = ErrorKind::from_errno(code);
    Error::new(kind, "the producer's event reports an error").from_vendor(code.into(), "errno")
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<EventTable>() == 48);
    assert!(offset_of!(EventTable, magic) == 0);
    assert!(offset_of!(EventTable, version) == 8);
    assert!(offset_of!(EventTable, size) == 12);
    assert!(offset_of!(EventTable, query) == 16);
    assert!(offset_of!(EventTable, wait) == 24);
    assert!(offset_of!(EventTable, queue_wait) == 32);
    assert!(offset_of!(EventTable, context) == 40);
};
