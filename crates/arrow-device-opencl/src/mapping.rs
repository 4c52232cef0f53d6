//! Mappings for the host: one call at a time for each memory object.
//!
//! OpenCL counts the mappings of a memory object and says that its functions are thread-safe. Two
//! mappings of the same bytes have the same address, though, and `clEnqueueUnmapMemObject` is told
//! nothing but that. Which of the two has ended is up to the runtime, and a runtime that ends the
//! other one while another thread is still in the call that makes it (PoCL) reads memory that it
//! has freed. Nobody here relies on any runtime in this: the thread that maps or unmaps a memory
//! object has a lock until the runtime has done it. What the host reads meanwhile needs no lock,
//! and mappings overlap in time as before.
//!
//! The lock is that of the root of a memory object, since a part is mapped as bytes of its root. It
//! belongs to the process and not to a driver, because all drivers of one context share the memory.
//! In a child of `fork` nobody waits for it: no operation of a driver is called there.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::Handle;

/// Several memory objects have one lock, which does no harm: it is held for a moment.
const COUNT: usize = 16;

static LOCKS: [Mutex<()>; COUNT] = [const { Mutex::new(()) }; COUNT];

/// What lets a thread map and unmap a memory object, for as long as this is there. `root` is its
/// root, or null for shared virtual memory, all of which takes turns.
pub(crate) fn turn(root: Handle) -> MutexGuard<'static, ()> {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(root.addr());
    let [first, ..] = &LOCKS;
    LOCKS.get(hash as usize % COUNT).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
}
