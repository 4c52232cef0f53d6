//! The objects that callers hold: boxes, whose addresses are the handles.
//!
//! A table knows the address and the type of each object that is alive. A handle that is not in the
//! table is a mistake of the caller's, and the call does nothing.

use std::any::{Any, type_name};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A pointer to an object, as callers have it.
pub(crate) type Handle = *mut c_void;

type Shared = Arc<dyn Any + Send + Sync>;

/// Every object that is alive, by its handle, with the type that it was given out as.
static LIVE: Mutex<Option<HashMap<usize, Shared>>> = Mutex::new(None);
static MISTAKES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a mistake of the caller's, and prints it.
pub(crate) fn mistake(what: &str) {
    MISTAKES.fetch_add(1, Ordering::SeqCst);
    eprintln!("simulated SYCL: {what}");
}

pub(crate) fn mistakes() -> u64 {
    MISTAKES.load(Ordering::SeqCst)
}

/// Gives an object out. Copies of one object are equal: they share what is inside.
pub(crate) fn give<T: Any + Send + Sync>(object: Arc<T>) -> Handle {
    // A `sycl::event` begins with a pointer; so does this.
    let place = Box::into_raw(Box::new(ptr::null_mut::<c_void>()));
    lock(&LIVE).get_or_insert_default().insert(place.addr(), object);
    place.cast()
}

/// The object of a handle. `None`, and a mistake, where there is none of this type.
pub(crate) fn find<T: Any + Send + Sync>(handle: Handle) -> Option<Arc<T>> {
    let found = lock(&LIVE).as_ref().and_then(|live| live.get(&handle.addr()).cloned());
    let found = found.and_then(|object| object.downcast::<T>().ok());
    if found.is_none() {
        mistake(&format!("{handle:?} is no {}", type_name::<T>()));
    }
    found
}

/// Takes an object back. A mistake where there is none of this type.
pub(crate) fn take<T: Any + Send + Sync>(handle: Handle) {
    if find::<T>(handle).is_none() {
        return;
    }
    let taken = lock(&LIVE).as_mut().and_then(|live| live.remove(&handle.addr()));
    if taken.is_some() {
        // SAFETY: `give` made the box, and the table had it once.
        drop(unsafe { Box::from_raw(handle.cast::<*mut c_void>()) });
    }
}

/// How many objects of this type are alive.
pub(crate) fn live<T: Any + Send + Sync>() -> u64 {
    let live = lock(&LIVE);
    let is_one = |object: &&Shared| object.is::<T>();
    live.as_ref().map_or(0, |live| live.values().filter(is_one).count() as u64)
}
