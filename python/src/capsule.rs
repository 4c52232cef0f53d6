//! Capsules: C structs of the Arrow interfaces in Python's hands.
//!
//! A capsule owns its struct, and the struct its release callback. Whoever consumes it moves the
//! struct out and leaves a released one behind; the destructor releases what is not, and frees the
//! memory. Both may happen on any thread.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_device::abi::{
    ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema,
};
use arrow_device::{Array, ArrayStream, Schema};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::attach;
use crate::error::{OrRaise, invalid};
use crate::live::{self, Kind};

/// A struct of the interfaces, and the name of its capsules.
pub(crate) trait Struct: Sized + 'static {
    /// The name that the specification gives them.
    const NAME: &'static CStr;

    /// Calls `release`, where the struct is not released.
    fn release(&mut self);
}

/// Calls the release callback of a struct, where it has one.
fn call<S>(release: Option<unsafe extern "C" fn(*mut S)>, structure: &mut S) {
    if let Some(release) = release {
        // SAFETY: the struct is not released, and nobody else has it: the capsule that owned it is
        // being destroyed.
        unsafe { release(structure) }
    }
}

impl Struct for ArrowSchema {
    const NAME: &'static CStr = c"arrow_schema";

    fn release(&mut self) {
        call(self.release, self);
    }
}

impl Struct for ArrowArray {
    const NAME: &'static CStr = c"arrow_array";

    fn release(&mut self) {
        call(self.release, self);
    }
}

impl Struct for ArrowDeviceArray {
    const NAME: &'static CStr = c"arrow_device_array";

    fn release(&mut self) {
        call(self.array.release, &mut self.array);
    }
}

impl Struct for ArrowArrayStream {
    const NAME: &'static CStr = c"arrow_array_stream";

    fn release(&mut self) {
        call(self.release, self);
    }
}

impl Struct for ArrowDeviceArrayStream {
    const NAME: &'static CStr = c"arrow_device_array_stream";

    fn release(&mut self) {
        call(self.release, self);
    }
}

/// Hands a struct to Python.
pub(crate) fn wrap<S: Struct>(py: Python<'_>, structure: S) -> PyResult<Bound<'_, PyCapsule>> {
    let address = NonNull::from(Box::leak(Box::new(structure)));
    live::add(Kind::Capsule);
    // SAFETY: the pointer stays valid until the destructor, which is the only one to free it; it
    // can run on any thread.
    let capsule = unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, address.cast(), S::NAME, Some(destroy::<S>))
    };
    capsule.inspect_err(|_| {
        // SAFETY: no capsule was made that would do it.
        unsafe { free(address) };
    })
}

/// The destructor of the capsules that are made here.
///
/// # Safety
/// Called by Python, once, for a capsule that `wrap::<S>` made.
unsafe extern "C" fn destroy<S: Struct>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being destroyed.
    if unsafe { ffi::PyCapsule_IsValid(capsule, S::NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: Python passes the capsule that is being destroyed; it has this name, so that no
    // exception is set.
    let address = unsafe { ffi::PyCapsule_GetPointer(capsule, S::NAME.as_ptr()) };
    if let Some(address) = NonNull::new(address.cast::<S>()) {
        // SAFETY: `wrap` put it there, and a capsule is destroyed once.
        keeping_exception(|| unsafe { free(address) });
    }
}

/// Runs what a destructor does. An exception may be on its way while objects are destroyed; a
/// producer's callback that runs Python code must not lose it.
pub(crate) fn keeping_exception(work: impl FnOnce()) {
    let (mut class, mut value, mut trace) = Default::default();
    #[allow(deprecated)]
    // Their successors are not in the stable interface of the oldest Python here.
    let (fetch, restore) = (ffi::PyErr_Fetch, ffi::PyErr_Restore);
    // SAFETY: Python is attached to the thread that destroys an object.
    unsafe { fetch(&mut class, &mut value, &mut trace) };
    work();
    // SAFETY: Python is attached to the thread that destroys an object.
    attach::let_go(unsafe { Python::assume_attached() });
    // SAFETY: Python is attached to the thread that destroys an object; these are the references
    // that were fetched.
    unsafe { restore(class, value, trace) };
}

/// # Safety
/// `address` came from `wrap`, and nobody has it any more.
unsafe fn free<S: Struct>(address: NonNull<S>) {
    live::remove(Kind::Capsule);
    // SAFETY: `wrap` leaked this box.
    let mut structure = unsafe { Box::from_raw(address.as_ptr()) };
    structure.release();
}

/// The struct of a capsule with this name, for as long as the capsule lives.
fn pointer<S: Struct>(capsule: &Bound<'_, PyAny>) -> PyResult<*mut S> {
    let expected = S::NAME.to_string_lossy();
    let Ok(capsule) = capsule.cast::<PyCapsule>() else {
        let found = capsule.get_type();
        return Err(PyTypeError::new_err(format!(
            "expected a capsule named '{expected}', got an object of {found}"
        )));
    };
    if !capsule.is_valid_checked(Some(S::NAME)) {
        return Err(invalid(format!(
            "expected a capsule named '{expected}', got {}",
            name(capsule)
        )));
    }
    Ok(capsule.pointer_checked(Some(S::NAME))?.cast::<S>().as_ptr())
}

/// The name of a capsule, for people.
pub(crate) fn name(capsule: &Bound<'_, PyCapsule>) -> String {
    match capsule.name() {
        // SAFETY: a capsule's name is a string that lives at least as long as it bears it, and it
        // is not renamed here.
        Ok(Some(name)) => format!("'{}'", unsafe { name.as_cstr() }.to_string_lossy()),
        _ => "one without a name".into(),
    }
}

/// Moves the struct out of a capsule while nobody else can: without the interpreter's lock it is
/// the capsule's own.
fn consume<S: Struct, T>(
    capsule: &Bound<'_, PyAny>,
    take: impl FnOnce(*mut S) -> arrow_device::Result<T>,
) -> PyResult<T> {
    let structure = pointer::<S>(capsule)?;
    with_critical_section(capsule, || take(structure)).or_raise()
}

/// The schema in an `arrow_schema` capsule, which is consumed.
pub(crate) fn take_schema(capsule: &Bound<'_, PyAny>) -> PyResult<Schema> {
    // SAFETY: a capsule of this name has such a struct: "the capsule's name is part of the
    // contract".
    consume(capsule, |schema| unsafe { Schema::import(schema) })
}

/// The array in an `arrow_device_array` capsule, which is consumed.
pub(crate) fn take_device_array(capsule: &Bound<'_, PyAny>, schema: &Schema) -> PyResult<Array> {
    // SAFETY: a capsule of this name has such a struct: "the capsule's name is part of the
    // contract".
    consume(capsule, |array| unsafe { Array::import(array, schema) })
}

/// The array in an `arrow_array` capsule, which is consumed.
pub(crate) fn take_array(capsule: &Bound<'_, PyAny>, schema: &Schema) -> PyResult<Array> {
    // SAFETY: a capsule of this name has such a struct: "the capsule's name is part of the
    // contract".
    consume(capsule, |array| unsafe { Array::import_host(array, schema) })
}

/// The stream in an `arrow_device_array_stream` capsule, which is consumed. Asks the producer for
/// the schema.
pub(crate) fn take_device_stream(capsule: &Bound<'_, PyAny>) -> PyResult<ArrayStream> {
    let stream = Moved(move_out(capsule, ArrowDeviceArrayStream::empty())?);
    // The producer may block, or need the interpreter on another thread.
    // SAFETY: a capsule of this name has such a struct, and it was moved here.
    capsule.py().detach(move || unsafe { ArrayStream::import(&mut stream.into_inner()) }).or_raise()
}

/// The stream in an `arrow_array_stream` capsule, which is consumed. Asks the producer for the
/// schema.
pub(crate) fn take_stream(capsule: &Bound<'_, PyAny>) -> PyResult<ArrayStream> {
    let stream = Moved(move_out(capsule, ArrowArrayStream::empty())?);
    // SAFETY: a capsule of this name has such a struct, and it was moved here.
    let import = move || unsafe { ArrayStream::import_host(&mut stream.into_inner()) };
    capsule.py().detach(import).or_raise()
}

/// A struct on its way to where Python is detached.
pub(crate) struct Moved<S>(pub(crate) S);

impl<S> Moved<S> {
    pub(crate) fn into_inner(self) -> S {
        self.0
    }
}

// SAFETY: the structs of the interfaces may be moved, and be released on any thread; nobody else
// has this one.
unsafe impl<S: Struct> Send for Moved<S> {}

/// Moves a struct out, and leaves a released one.
fn move_out<S: Struct>(capsule: &Bound<'_, PyAny>, released: S) -> PyResult<S> {
    let moved = consume(capsule, |structure: *mut S| {
        // SAFETY: the capsule has a struct there, and nobody else can touch it now.
        Ok(unsafe { structure.replace(released) })
    })?;
    Ok(moved)
}

/// A schema as a capsule.
pub(crate) fn of_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let mut out = ArrowSchema::empty();
    schema.export(&mut out).or_raise()?;
    wrap(py, out)
}
