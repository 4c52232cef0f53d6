//! The Rust side of the C programs in `c/`: a few functions that take arrays over from C, give them
//! back, refuse them, and make some for C to consume.
//!
//! `c/peer.h` and `c/dlpack_peer.h` declare them and say what they do. They exist for those
//! programs alone; the C interface of the library is another one.

mod made;
pub mod pushed;
pub mod streams;
pub mod tensors;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DeviceType, Error, ErrorKind, HostArray, Result, Schema};

/// See `c/peer.h`.
///
/// # Safety
/// The inputs are null or structs as [`Schema::import`] and [`Array::import`] describe them, the
/// outputs may be written, and `message` is null or has room for `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_exchange(
    schema: *mut ArrowSchema,
    array: *mut ArrowDeviceArray,
    out_schema: *mut ArrowSchema,
    out_array: *mut ArrowDeviceArray,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let outcome = guarded(|| {
        // SAFETY: the structs are as this function's section says, which the caller promises.
        let array = unsafe { import(schema, array) }?;
        if array.device().device_type == DeviceType::CPU {
            read_all(&array.host()?)?;
        }
        // SAFETY: the structs are as this function's section says, which the caller promises.
        unsafe { export(&array, out_schema, out_array) }
    });
    // SAFETY: the structs are as this function's section says, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// As for [`adp_exchange`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_refuse(
    schema: *mut ArrowSchema,
    array: *mut ArrowDeviceArray,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    // SAFETY: what `adp_exchange` asks for, which the caller promises.
    let outcome = guarded(|| unsafe { import(schema, array) }.map(drop));
    // SAFETY: what `adp_exchange` asks for, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// Both outputs may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_produce(
    kind: c_int,
    out_schema: *mut ArrowSchema,
    out_array: *mut ArrowDeviceArray,
) -> c_int {
    let outcome = guarded(|| {
        let array = made::array(kind)?;
        // SAFETY: both outputs may be written, as the caller promises.
        unsafe { export(&array, out_schema, out_array) }
    });
    outcome.map_or_else(|error| error.kind().errno(), |()| 0)
}

/// See `c/peer.h`.
#[unsafe(no_mangle)]
pub extern "C" fn adp_alive() -> i64 {
    made::alive()
}

/// See `c/peer.h`.
///
/// # Safety
/// As for [`adp_exchange`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_panic(message: *mut c_char, message_size: usize) -> c_int {
    let outcome = guarded(|| std::panic::resume_unwind(Box::new("planted for a test")));
    // SAFETY: what `adp_exchange` asks for, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// # Safety
/// As for [`adp_exchange`].
unsafe fn import(schema: *mut ArrowSchema, array: *mut ArrowDeviceArray) -> Result<Array> {
    // SAFETY: what `adp_exchange` asks for, which the caller promises.
    let schema = unsafe { Schema::import(schema) }?;
    // SAFETY: what `adp_exchange` asks for, which the caller promises.
    unsafe { Array::import(array, &schema) }
}

/// Writes both outputs, or neither.
///
/// # Safety
/// Both outputs may be written.
unsafe fn export(
    array: &Array,
    out_schema: *mut ArrowSchema,
    out_array: *mut ArrowDeviceArray,
) -> Result<()> {
    let mut exported = ArrowDeviceArray::empty();
    let schema = array.schema()?;
    array.export(&mut exported)?;
    // SAFETY: both outputs may be written, as the caller promises.
    unsafe { schema.export_to(out_schema) }?;
    // SAFETY: both outputs may be written, as the caller promises.
    unsafe { out_array.write(exported) };
    Ok(())
}

/// Reads every byte there is, so that a sanitizer sees each.
fn read_all(array: &HostArray) -> Result<()> {
    for index in 0..array.array().buffer_count() {
        let bytes = array.buffer(index)?;
        std::hint::black_box(bytes.iter().fold(0_u8, |all, byte| all ^ byte));
    }
    for index in 0..array.array().child_count() {
        read_all(&array.child(index)?)?;
    }
    array.dictionary().as_ref().map_or(Ok(()), read_all)
}

/// Keeps a panic from reaching C.
fn guarded(body: impl FnOnce() -> Result<()>) -> Result<()> {
    // Nothing of what the body captured is looked at after a panic.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<&str>().copied().unwrap_or("without a message");
        Err(Error::new(ErrorKind::Panicked, message))
    })
}

/// Returns the errno, and writes as much of the message as there is room for.
///
/// # Safety
/// `message` is null or has room for `message_size` bytes.
unsafe fn answer(outcome: Result<()>, message: *mut c_char, message_size: usize) -> c_int {
    let Err(error) = outcome else { return 0 };
    let text = match error.kind() {
        ErrorKind::Panicked => error.message().to_owned(),
        _ => error.to_string(),
    };
    if !message.is_null() && message_size > 0 {
        let len = text.len().min(message_size - 1);
        // SAFETY: the caller has room for `len` bytes and one more; `text` has `len`, and is this
        // function's own.
        unsafe { message.copy_from_nonoverlapping(text.as_ptr().cast(), len) };
        // SAFETY: the caller has room for `len` bytes and one more; `text` has `len`, and is this
        // function's own; this is the one more.
        unsafe { message.wrapping_add(len).write(0) };
    }
    error.errno()
}
