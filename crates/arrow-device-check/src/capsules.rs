//! Destructors of the capsules that a Python process hands out.
//!
//! A capsule may die while an exception is on its way, when no code in Python can run. So the
//! destructors are not written in Python, and call nothing that looks at exceptions.

use std::ffi::{CStr, c_char, c_void};

type NameOf = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type PointerOf = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut c_void);

/// Returns the name of a capsule, and the pointer in it.
///
/// # Safety
/// `capsule` is a capsule of Python's that is being destroyed.
unsafe fn of(capsule: *mut c_void) -> Option<(*const c_char, *mut c_void)> {
    let find = |name: &CStr| {
        // SAFETY: a lookup by a name with a NUL at its end, in this process.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let (name_of, pointer_of) = (find(c"PyCapsule_GetName")?, find(c"PyCapsule_GetPointer")?);
    // SAFETY: Python's function of this name has this type.
    let name_of = unsafe { std::mem::transmute::<*mut c_void, NameOf>(name_of) };
    // SAFETY: Python's function of this name has this type.
    let pointer_of = unsafe { std::mem::transmute::<*mut c_void, PointerOf>(pointer_of) };
    // SAFETY: a capsule, as the caller promises.
    let name = unsafe { name_of(capsule) };
    // SAFETY: a capsule and its own name, so that no exception is raised.
    let pointer = unsafe { pointer_of(capsule, name) };
    (!pointer.is_null()).then_some((name, pointer))
}

/// Calls the callback that a struct has at this offset, if there is one.
///
/// # Safety
/// `pointer` is a struct with a callback or null there, which takes the struct.
unsafe fn call_at(pointer: *mut c_void, offset: usize) {
    let slot = pointer.cast::<u8>().wrapping_add(offset).cast::<Option<Release>>();
    // SAFETY: the struct has a callback or null there, as the caller promises.
    let callback = unsafe { slot.read_unaligned() };
    // SAFETY: the struct's own callback, called once and with it.
    callback.into_iter().for_each(|release| unsafe { release(pointer) });
}

/// Releases a struct that is not released, and frees its memory, which is from `malloc`.
///
/// # Safety
/// `capsule` is a capsule with such a struct.
unsafe fn end_struct(capsule: *mut c_void, release: usize) {
    // SAFETY: a capsule that is being destroyed, as the caller promises.
    let Some((_, pointer)) = (unsafe { of(capsule) }) else { return };
    // SAFETY: a struct of the interface, as the caller promises.
    unsafe { call_at(pointer, release) };
    // SAFETY: memory of `malloc`, which nobody else has.
    unsafe { libc::free(pointer) };
}

macro_rules! ends {
    ($($name:ident $release:literal,)*) => {$(
        /// # Safety
        /// Called by Python, with a capsule of a struct whose release is at this offset.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(capsule: *mut c_void) {
            // SAFETY: a capsule of such a struct, as the caller promises.
            unsafe { end_struct(capsule, $release) }
        }
    )*};
}

ends! {
    arrow_device_check_end_schema 56,
    arrow_device_check_end_array 64,
    arrow_device_check_end_stream 24,
    arrow_device_check_end_device_stream 32,
}

/// Deletes a tensor that nobody consumed.
///
/// # Safety
/// Called by Python, with a capsule of a tensor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_end_tensor(capsule: *mut c_void) {
    // SAFETY: a capsule that is being destroyed, as the caller promises.
    let Some((name, pointer)) = (unsafe { of(capsule) }) else { return };
    // SAFETY: names of these capsules end with a NUL.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        // SAFETY: the deleter of a tensor that was not consumed.
        b"dltensor" => unsafe { call_at(pointer, 56) },
        // SAFETY: the deleter of a tensor that was not consumed.
        b"dltensor_versioned" => unsafe { call_at(pointer, 16) },
        _ => {}
    }
}
