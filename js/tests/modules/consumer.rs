//! A WebAssembly module that takes an array over by the C device data interface. It has never heard
//! of arrow-device, nor of the module that made the array.
//!
//! `consume` moves the first column out, and releases the rest. `finish` releases the column.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::Mutex;

/// The struct of an array, by its words: five numbers of 64 bits, then pointers.
const LENGTH: usize = 0;
const N_CHILDREN: usize = 32;
const BUFFERS: usize = 40;
const CHILDREN: usize = 44;
const RELEASE: usize = 52;
const SIZE: usize = 64;
/// Where the release callback of a schema is.
const SCHEMA_RELEASE: usize = 40;

static COLUMN: Mutex<[u64; SIZE / 8]> = Mutex::new([0; SIZE / 8]);

fn word(at: usize) -> u32 {
    // SAFETY: the address lies in a struct that the page gave.
    unsafe { (at as *const u32).read_unaligned() }
}

fn release(at: usize, place: usize) {
    let callback = word(at + place) as usize;
    if callback != 0 {
        // SAFETY: a release callback is such a function, by its place in the table of functions.
        let callback =
            unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(usize)>(callback) };
        // SAFETY: the struct is not released.
        unsafe { callback(at) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn my_malloc(size: usize) -> usize {
    // SAFETY: the size is not 0.
    let start = unsafe { alloc(Layout::from_size_align(size + 8, 8).unwrap()) };
    // SAFETY: there is room for the size in front.
    unsafe { start.cast::<usize>().write(size + 8) };
    LIVE.lock().unwrap().0 += 1;
    start as usize + 8
}

/// How many blocks are allocated.
static LIVE: Mutex<(u32,)> = Mutex::new((0,));

#[unsafe(no_mangle)]
pub extern "C" fn live() -> u32 {
    LIVE.lock().unwrap().0
}

#[unsafe(no_mangle)]
pub extern "C" fn my_free(address: usize) {
    let start = (address - 8) as *mut u8;
    // SAFETY: `my_malloc` wrote the size there.
    let size = unsafe { start.cast::<usize>().read() };
    // SAFETY: `my_malloc` made this block.
    unsafe { dealloc(start, Layout::from_size_align(size, 8).unwrap()) };
    LIVE.lock().unwrap().0 -= 1;
}

/// Returns the number of the buffer with the column's values, 0 where the structs are not those of
/// one column.
#[unsafe(no_mangle)]
pub extern "C" fn consume(schema: usize, array: usize) -> u32 {
    release(schema, SCHEMA_RELEASE);
    if word(array + N_CHILDREN) != 1 {
        return 0;
    }
    let child = word(word(array + CHILDREN) as usize) as usize;
    let column = COLUMN.lock().unwrap().as_mut_ptr();
    // SAFETY: both are structs of arrays: the column moves.
    unsafe { (child as *const u64).copy_to_nonoverlapping(column, SIZE / 8) };
    // SAFETY: the child is moved out, and no more released with its parent.
    unsafe { ((child + RELEASE) as *mut u32).write(0) };
    release(array, RELEASE);
    word(word(column as usize + BUFFERS) as usize + 4)
}

#[unsafe(no_mangle)]
pub extern "C" fn column_length() -> u32 {
    let column = COLUMN.lock().unwrap().as_ptr();
    word(column as usize + LENGTH)
}

#[unsafe(no_mangle)]
pub extern "C" fn finish() {
    let column = COLUMN.lock().unwrap().as_ptr() as usize;
    release(column, RELEASE);
}
