//! The streams of `c/peer.h`: taken over from C, relayed, and made in Rust for C to read.

use std::ffi::{c_char, c_int};

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{Array, ArrayStream, DeviceType, Error, ErrorKind, Result};

use crate::{answer, guarded, made, read_all};

/// See `c/peer.h`.
///
/// # Safety
/// `stream` is null or a struct as [`ArrayStream::import`] describes it, `out` may be written, and
/// `message` is null or has room for `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_stream_relay(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArrayStream,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let outcome = guarded(|| {
        // SAFETY: `stream` is null or a struct as `ArrayStream::import` describes it, `out` may be
        // written, and `message` is null or has room for `message_size` bytes, as the caller
        // promises.
        let stream = unsafe { ArrayStream::import(stream) }?;
        let mut exported = ArrowDeviceArrayStream::empty();
        stream.export(&mut exported);
        // SAFETY: `stream` is null or a struct as `ArrayStream::import` describes it, `out` may be
        // written, and `message` is null or has room for `message_size` bytes, as the caller
        // promises.
        unsafe { out.write(exported) };
        Ok(())
    });
    // SAFETY: `stream` is null or a struct as `ArrayStream::import` describes it, `out` may be
    // written, and `message` is null or has room for `message_size` bytes, as the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// As for [`adp_stream_relay`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_stream_as_host(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowArrayStream,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let outcome = guarded(|| {
        // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
        let stream = unsafe { ArrayStream::import(stream) }?;
        let mut exported = ArrowArrayStream::empty();
        stream.export_host(&mut exported)?;
        // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
        unsafe { out.write(exported) };
        Ok(())
    });
    // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// As for [`adp_stream_relay`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_stream_as_device(
    stream: *mut ArrowArrayStream,
    out: *mut ArrowDeviceArrayStream,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let outcome = guarded(|| {
        // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
        let stream = unsafe { ArrayStream::import_host(stream) }?;
        let mut exported = ArrowDeviceArrayStream::empty();
        stream.export(&mut exported);
        // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
        unsafe { out.write(exported) };
        Ok(())
    });
    // SAFETY: what `adp_stream_relay` asks for, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// As for [`adp_stream_relay`]; `rows` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_stream_read(
    stream: *mut ArrowDeviceArrayStream,
    rows: *mut i64,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let mut count = 0;
    let outcome = guarded(|| {
        // SAFETY: what `adp_stream_relay` asks for; `rows` may be written, as the caller promises.
        for array in unsafe { ArrayStream::import(stream) }? {
            let array = array?;
            read_all(&array.host()?)?;
            count += array.len() as i64;
        }
        Ok(())
    });
    // SAFETY: what `adp_stream_relay` asks for; `rows` may be written, as the caller promises.
    unsafe { rows.write(count) };
    // SAFETY: what `adp_stream_relay` asks for; `rows` may be written, as the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_stream_produce(
    kind: c_int,
    arrays: c_int,
    end: c_int,
    out: *mut ArrowDeviceArrayStream,
) -> c_int {
    let outcome = guarded(|| {
        let schema = made::array(kind)?.schema()?;
        let step = move |index: c_int| -> Option<Result<Array>> {
            match end {
                _ if index < arrays => Some(made::array(kind)),
                1 => Some(Err(Error::new(ErrorKind::TimedOut, "the well ran dry"))),
                2 => std::panic::resume_unwind(Box::new("planted for a test")),
                _ => None,
            }
        };
        let arrays = (0..).map_while(step);
        let mut exported = ArrowDeviceArrayStream::empty();
        ArrayStream::new(schema, DeviceType::CPU, arrays).export(&mut exported);
        // SAFETY: `out` may be written, as the caller promises.
        unsafe { out.write(exported) };
        Ok(())
    });
    outcome.map_or_else(|error| error.kind().errno(), |()| 0)
}
