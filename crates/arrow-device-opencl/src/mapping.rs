//! Mapping for the host: one call at a time for each memory object.
//!
//! OpenCL counts the mappings of a memory object and says that its functions are thread-safe. But
//! two mappings of the same bytes have the same address, and `clEnqueueUnmapMemObject` gets only
//! that address. The runtime decides which of the two mappings ends. PoCL may end the mapping of
//! another thread that is still in the call which makes this mapping, and then reads memory that
//! PoCL has freed. This crate does not rely on any runtime here: the thread that maps or unmaps a
//! memory object holds a lock until the runtime has done so. Reading mapped memory needs no lock,
//! so mappings still overlap in time.
//!
//! The lock is that of the root of a memory object, because a part is mapped as bytes of its root.
//! The locks belong to the process and not to a driver, because all drivers of one context share
//! the memory. In a child of `fork` nobody waits for a lock, because no operation of a driver is
//! called there.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::Handle;

/// The number of locks. Several memory objects may share a lock. Their mappings then take turns,
/// too: a lock is held only while the runtime maps or unmaps.
const COUNT: usize = 16;

static LOCKS: [Mutex<()>; COUNT] = [const { Mutex::new(()) }; COUNT];

/// Takes the lock with which a thread maps and unmaps a memory object. `root` is the root of the
/// object, or null for shared virtual memory, all of which shares one lock.
pub(crate) fn turn(root: Handle) -> MutexGuard<'static, ()> {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(root.addr());
    let [first, ..] = &LOCKS;
    LOCKS.get(hash as usize % COUNT).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
}
