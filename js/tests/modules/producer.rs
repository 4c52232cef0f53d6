//! A WebAssembly module with an array in a GPU's buffer, and structs of its own for the C device
//! data interface. It has never heard of arrow-device, nor of the module that will use the array.
//!
//! It knows the buffer by a number of its own, which the page gave it. The array is a batch of one
//! column of 32-bit integers, made by `make`. `released` says how many of its structs were
//! released.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowDeviceArray {
    array: ArrowArray,
    device_id: i64,
    device_type: i32,
    sync_event: *mut c_void,
    reserved: [i64; 3],
}

static RELEASED: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn released() -> u32 {
    RELEASED.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_malloc(size: usize) -> *mut u8 {
    // SAFETY: the size is not 0.
    unsafe { alloc(Layout::from_size_align(size.max(8), 8).unwrap()) }
}

/// Keeps the memory: the module lives for one test.
#[unsafe(no_mangle)]
pub extern "C" fn my_free(_address: *mut u8) {}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the consumer gives a live struct of this module.
    let schema = unsafe { &mut *schema };
    for index in 0..schema.n_children as usize {
        // SAFETY: the table has an entry for each child.
        let child = unsafe { *schema.children.add(index) };
        // SAFETY: the child lives as long as its parent.
        if let Some(release) = unsafe { (*child).release } {
            // SAFETY: the child is not released.
            unsafe { release(child) };
        }
    }
    schema.release = None;
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the consumer gives a live struct of this module.
    let array = unsafe { &mut *array };
    for index in 0..array.n_children as usize {
        // SAFETY: the table has an entry for each child.
        let child = unsafe { *array.children.add(index) };
        // SAFETY: the child lives as long as its parent.
        if let Some(release) = unsafe { (*child).release } {
            // SAFETY: the child is not released.
            unsafe { release(child) };
        }
    }
    array.release = None;
    RELEASED.fetch_add(1, Ordering::Relaxed);
    let private = array.private_data;
    if !private.is_null() {
        // SAFETY: `make` allocated eight bytes.
        unsafe { dealloc(private.cast(), Layout::from_size_align(8, 8).unwrap()) };
        array.private_data = ptr::null_mut();
    }
}

fn leaked<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn node(length: i64, buffers: Vec<*const c_void>, children: Vec<*mut ArrowArray>) -> ArrowArray {
    let (n_buffers, n_children) = (buffers.len() as i64, children.len() as i64);
    ArrowArray {
        length,
        null_count: 0,
        offset: 0,
        n_buffers,
        n_children,
        buffers: Box::leak(buffers.into_boxed_slice()).as_mut_ptr(),
        children: Box::leak(children.into_boxed_slice()).as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: my_malloc(8).cast(),
    }
}

fn field(
    format: &'static [u8],
    name: &'static [u8],
    children: Vec<*mut ArrowSchema>,
) -> ArrowSchema {
    ArrowSchema {
        format: format.as_ptr().cast(),
        name: name.as_ptr().cast(),
        metadata: ptr::null(),
        flags: 0,
        n_children: children.len() as i64,
        children: Box::leak(children.into_boxed_slice()).as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: ptr::null_mut(),
    }
}

/// Makes a batch of one column with these many numbers, which lie in this buffer of this device.
/// Returns the address of the schema; the array is behind it.
#[unsafe(no_mangle)]
pub extern "C" fn make(
    buffer: usize,
    length: u32,
    device_id: u32,
) -> *mut (ArrowSchema, ArrowDeviceArray) {
    let length = i64::from(length);
    let column = leaked(node(length, vec![ptr::null(), buffer as *const c_void], Vec::new()));
    let array = ArrowDeviceArray {
        array: node(length, vec![ptr::null()], vec![column]),
        device_id: device_id.into(),
        device_type: 15,
        sync_event: ptr::null_mut(),
        reserved: [0; 3],
    };
    let column = leaked(field(b"i\0", b"n\0", Vec::new()));
    leaked((field(b"+s\0", b"\0", vec![column]), array))
}

#[unsafe(no_mangle)]
pub extern "C" fn schema_of(made: *mut (ArrowSchema, ArrowDeviceArray)) -> *mut ArrowSchema {
    // SAFETY: `make` gave the address.
    unsafe { &raw mut (*made).0 }
}

#[unsafe(no_mangle)]
pub extern "C" fn array_of(made: *mut (ArrowSchema, ArrowDeviceArray)) -> *mut ArrowDeviceArray {
    // SAFETY: `make` gave the address.
    unsafe { &raw mut (*made).1 }
}
