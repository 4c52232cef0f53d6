//! Values that are made when they are first asked for, and then stay.
//!
//! No thread waits for another one that makes a value. Both make one; the first to finish stores
//! its value, and the other drops what it made. With the standard library's `OnceLock` the second
//! thread waits for the first, and a child of `fork` would wait for ever where the first is a
//! thread of the parent. A value whose making has effects elsewhere must not be in one of these.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// An optional value in a box: one pointer. Can be shared between threads where an `Arc` of the
/// value could be, because a thread may drop what another thread has made.
pub(crate) struct OnceBox<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

impl<T> OnceBox<T> {
    /// Without a value yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    /// The value, if there is one. Costs one load.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the member is null, or a pointer of `Box::into_raw` that `store` has stored and
        // that `Drop` alone gives back, when nobody borrows `self` any more. The load acquires what
        // was written before the pointer was stored.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value, which is made now if there is none.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.store(make()),
        }
    }

    /// Stores the value, unless another thread has stored one.
    #[cold]
    fn store(&self, value: T) -> &T {
        let fresh = Box::into_raw(Box::new(value));
        let none = ptr::null_mut();
        let stored = self.0.compare_exchange(none, fresh, Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: `Box::into_raw` gave the pointer above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
        match self.get() {
            Some(value) => value,
            None => unreachable!("a value that was stored stays"),
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: the pointer is one of `Box::into_raw`, and nobody borrows the cell any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// An optional row of values. Takes no more memory than the values and two words.
pub(crate) struct OnceSlice<T> {
    /// The address of the values. Null where there are none yet.
    start: AtomicPtr<T>,
    /// The number of values plus one; 0 where it was not stored yet. Stored once, before `start`
    /// is.
    count: AtomicUsize,
    owns: PhantomData<Arc<[T]>>,
}

impl<T> OnceSlice<T> {
    /// Without values yet.
    pub(crate) const fn new() -> Self {
        let (start, count) = (AtomicPtr::new(ptr::null_mut()), AtomicUsize::new(0));
        Self { start, count, owns: PhantomData }
    }

    /// The values, if they exist.
    pub(crate) fn get(&self) -> Option<&[T]> {
        let start = self.start.load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        // The count was stored before the start, which the load above acquires.
        let count = self.count.load(Ordering::Relaxed).wrapping_sub(1);
        // SAFETY: `get_or_make` has stored the start and the count of one boxed slice, in which so
        // many values are, and which `Drop` alone gives back, when nobody borrows `self` any more.
        // The load of the start acquires what was written before.
        Some(unsafe { std::slice::from_raw_parts(start, count) })
    }

    /// The values, which are made now if there are none. Every thread has to make the same number
    /// of values.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Box<[T]>) -> &[T] {
        match self.get() {
            Some(values) => values,
            None => self.store(make()),
        }
    }

    /// Stores the values, unless another thread has stored some.
    #[cold]
    fn store(&self, values: Box<[T]>) -> &[T] {
        let count = values.len() + 1;
        let said = self.count.compare_exchange(0, count, Ordering::Relaxed, Ordering::Relaxed);
        let agree = said.err().is_none_or(|said| said == count);
        assert!(agree, "two threads made slices of two lengths");
        let fresh = Box::into_raw(values);
        let none = ptr::null_mut();
        let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
        if self.start.compare_exchange(none, fresh.cast(), before, after).is_err() {
            // SAFETY: `Box::into_raw` gave the pointer above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
        match self.get() {
            Some(values) => values,
            None => unreachable!("values that were stored stay"),
        }
    }
}

impl<T> From<Box<[T]>> for OnceSlice<T> {
    fn from(values: Box<[T]>) -> Self {
        let count = AtomicUsize::new(values.len() + 1);
        let start = AtomicPtr::new(Box::into_raw(values).cast());
        Self { start, count, owns: PhantomData }
    }
}

impl<T> Drop for OnceSlice<T> {
    fn drop(&mut self) {
        let start = *self.start.get_mut();
        if !start.is_null() {
            let values = ptr::slice_from_raw_parts_mut(start, *self.count.get_mut() - 1);
            // SAFETY: the start and the count are those of one boxed slice that `Box::into_raw`
            // gave, and nobody borrows the cell any more.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: SAF-27
    #[test]
    fn nobody_waits_for_a_thread_that_makes_a_value() {
        let (value, values) = (OnceBox::new(), OnceSlice::new());
        // As if this thread had been in the middle of it at a fork.
        let first = value.get_or_make(|| {
            std::thread::scope(|threads| {
                threads.spawn(|| assert_eq!(value.get_or_make(|| "theirs"), &"theirs"));
            });
            "mine"
        });
        assert_eq!((first, value.get()), (&"theirs", Some(&"theirs")));
        let first = values.get_or_make(|| {
            std::thread::scope(|threads| {
                threads.spawn(|| assert_eq!(values.get_or_make(|| strings("theirs")).len(), 1));
            });
            strings("mine")
        });
        assert_eq!(first, ["theirs"]);
    }

    fn strings(text: &str) -> Box<[String]> {
        Box::from([text.to_owned()])
    }

    #[test]
    fn what_a_cell_has_is_dropped_once() {
        let counted = Arc::new(());
        let (value, values) = (OnceBox::new(), OnceSlice::new());
        assert!(value.get().is_none() && values.get().is_none());
        drop((OnceBox::<()>::new(), OnceSlice::<()>::new(), OnceSlice::<u8>::from(Box::default())));
        value.get_or_make(|| counted.clone());
        value.get_or_make(|| counted.clone());
        values.get_or_make(|| Box::from([counted.clone(), counted.clone()]));
        drop(OnceSlice::from(Box::from([counted.clone()])));
        assert_eq!(Arc::strong_count(&counted), 4);
        drop((value, values));
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn threads_that_race_have_one_value() {
        for _ in 0..if cfg!(miri) { 4 } else { 200 } {
            let (value, values) = (OnceBox::new(), OnceSlice::new());
            let make = |number: usize| {
                let value = ptr::from_ref(value.get_or_make(|| number)).addr();
                let values = values.get_or_make(|| Box::from([number, number]));
                assert_eq!(values.first(), values.last());
                (value, values.as_ptr().addr())
            };
            let places = std::thread::scope(|threads| {
                let racing = [1, 2, 3].map(|number| threads.spawn(move || make(number)));
                racing.map(|thread| thread.join().unwrap())
            });
            assert_eq!(places, [make(4); 3]);
        }
    }
}
