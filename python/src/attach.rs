//! Python from where C calls, and references to Python objects that any thread may drop.
//!
//! A callback, a release or a deleter is called with the interpreter's lock or without it, and
//! PyO3 cannot tell which: PyO3 counts the frames of this package on the thread, and below such a
//! frame Python code may have called a C function (of pyarrow, or by `ctypes`) that lets go of the
//! lock and then calls back. `Python::attach`, `Python::try_attach` and the drop of a `Py` take
//! such a thread for attached. They are for functions that Python calls. What C may call
//!
//! * gets to Python by [`attached`], which asks the interpreter itself,
//! * and keeps each reference as a [`Held`], whose drop waits for nobody and runs no Python code: a
//!   C++ library may release while it holds a lock that another thread, which has the interpreter's
//!   lock, waits for.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Calls `work` with the interpreter, for which it waits. `None` where the interpreter has ended.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    if has_ended() {
        return None;
    }
    let _lock = Lock::take();
    Python::try_attach(|py| {
        let _end = AtEnd::of(py);
        work(py)
    })
}

/// Whether the interpreter ends or has ended. From then on one thread alone has Python.
fn has_ended() -> bool {
    // SAFETY: Python's documentation lists `Py_IsInitialized` among the functions that can be
    // called without the interpreter and before it is initialized.
    unsafe { ffi::Py_IsInitialized() == 0 }
}

/// The interpreter's lock, or the attachment that a free-threaded build has instead.
struct Lock(ffi::PyGILState_STATE);

impl Lock {
    fn take() -> Self {
        // SAFETY: Python's documentation of `PyGILState_Ensure`: it may be called "regardless of
        // the current state of Python", and "as many times as desired by a thread as long as each
        // call is matched with a call to PyGILState_Release()", which is done in `drop`.
        Self(unsafe { ffi::PyGILState_Ensure() })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before version 3.14 Python ends other threads at its end by unwinding their stacks.
        if has_ended() {
            return;
        }
        // SAFETY: Python's documentation of `PyGILState_Release`: the call matches that of
        // `PyGILState_Ensure` whose answer this is. A `Lock` does not leave `attached`, so that it
        // is the same thread, and calls inside each other end in the reverse order.
        unsafe { ffi::PyGILState_Release(self.0) };
    }
}

/// A reference to a Python object that may be dropped on any thread, with the interpreter's lock or
/// without it.
///
/// The drop puts the reference on a list, from which [`let_go`] takes it.
pub(crate) struct Held(ManuallyDrop<Arc<Node>>);

/// What Python's collector of cycles sees of a [`Held`].
///
/// Whoever shows it to the collector alone owns the [`Held`], or nobody needs that any more. The
/// collector takes an object for garbage to which no other reference is than those that it was
/// shown.
#[derive(Clone, Debug)]
pub(crate) struct Seen(Weak<Node>);

impl Seen {
    /// For `__traverse__`, which Python calls with the interpreter's lock.
    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The share is not the last one: to let go of the node's own one takes the lock.
        match self.0.upgrade() {
            Some(node) => visit.call(&node.object),
            None => Ok(()),
        }
    }
}

/// Allocated with the reference, so that a release allocates nothing.
struct Node {
    object: Py<PyAny>,
    /// The node that was on the list before.
    next: AtomicPtr<Node>,
}

impl Debug for Node {
    /// Does not ask the object, for which Python would be needed.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

/// What was dropped and not let go of yet. No lock: a child of `fork` may find one locked.
static DROPPED: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

impl Held {
    pub(crate) fn new(object: Bound<'_, PyAny>) -> Self {
        let node = Node { object: object.unbind(), next: AtomicPtr::default() };
        Self(ManuallyDrop::new(Arc::new(node)))
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen(Arc::downgrade(&self.0))
    }

    /// Shows the object to Python's collector of cycles. For `__traverse__`, which Python calls
    /// with the interpreter's lock, of the one object of Python's that holds this.
    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0.object)
    }

    /// An exception, as it was raised.
    pub(crate) fn into_exception(self, py: Python<'_>) -> PyErr {
        let exception = PyErr::from_value(self.bind(py).clone());
        drop(self);
        let_go(py);
        exception
    }

    pub(crate) fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.0.object.bind(py)
    }
}

impl Debug for Held {
    /// Does not ask the object, for which Python would be needed.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the documentation of `ManuallyDrop::take`: the field is not used again, for this
        // is its owner's drop.
        let this = Arc::into_raw(unsafe { ManuallyDrop::take(&mut self.0) });
        // SAFETY: the documentation of `Arc::into_raw`: the pointer is valid until the share is
        // taken back, which `pop` does, and not before it is on the list.
        let next = unsafe { &(*this).next };
        let mut first = DROPPED.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            let this = this.cast_mut();
            let put =
                DROPPED.compare_exchange_weak(first, this, Ordering::Release, Ordering::Relaxed);
            match put {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// How many calls of [`let_go`] may be inside each other on a thread. Chains of objects can be
/// long, and each object of a chain needs stack.
const DEEPEST: usize = 16;

thread_local! {
    /// How many calls of [`let_go`] the thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Gives up the references that were dropped. Runs code of Python's, which may get here again; what
/// gets here too deep is left to the calls that it is in.
pub(crate) fn let_go(py: Python<'_>) {
    // Nearly always there is nothing.
    if DROPPED.load(Ordering::Relaxed).is_null() {
        return;
    }
    let depth = DEPTH.get();
    if depth == DEEPEST {
        return;
    }
    DEPTH.set(depth + 1);
    while let Some(object) = pop(py) {
        object.drop_ref(py);
    }
    DEPTH.set(depth);
}

/// Takes the reference that was dropped last off the list. The others stay there, so that another
/// thread can give them up while this one runs what giving up the first one runs.
fn pop(_: Python<'_>) -> Option<Py<PyAny>> {
    let mut first = DROPPED.load(Ordering::Acquire);
    loop {
        // SAFETY: the documentation of `NonNull::as_ref`: a drop of `Held` leaked the share, which
        // is taken back below alone, by a thread that has the interpreter, as this one has from the
        // load on.
        let next = unsafe { NonNull::new(first)?.as_ref() }.next.load(Ordering::Relaxed);
        // What is dropped meanwhile comes to the front. The first one is not taken off and put back
        // by anybody else meanwhile, who would need the interpreter.
        let taken =
            DROPPED.compare_exchange_weak(first, next, Ordering::Acquire, Ordering::Acquire);
        match taken {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    // SAFETY: the documentation of `Arc::from_raw`: a drop of `Held` leaked the share, and the
    // list, off which it was taken just now, had its only pointer.
    let node = unsafe { Arc::from_raw(first) };
    // The only share: `Seen` has others only while the collector runs, with the interpreter.
    Arc::into_inner(node).map(|node| node.object)
}

/// Gives up at its end what was dropped until then. A function that Python calls makes one first,
/// where it may drop what it took over from another object.
pub(crate) struct AtEnd<'py>(Python<'py>);

impl<'py> AtEnd<'py> {
    pub(crate) fn of(py: Python<'py>) -> Self {
        Self(py)
    }
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        // Before version 3.14 Python ends other threads at its end by unwinding their stacks, and
        // they have no interpreter then.
        if !has_ended() {
            let_go(self.0);
        }
    }
}

/// The last field of a Python class that owns data: with an object its memory goes.
#[derive(Debug)]
pub(crate) struct LastField;

impl Drop for LastField {
    fn drop(&mut self) {
        // SAFETY: the structs that have this field are the values of Python objects. Python's
        // documentation of `tp_dealloc` and of thread states: an object is destroyed by a thread
        // with an attached thread state. A value that became no object is dropped by the method
        // that made it, to which Python is attached.
        let_go(unsafe { Python::assume_attached() });
    }
}
