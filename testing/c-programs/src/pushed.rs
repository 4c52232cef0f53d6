//! The asynchronous streams of `c/peer.h`: a consumer in Rust, for producers in C.

use std::ffi::{c_char, c_int};

use arrow_device::abi::ArrowAsyncDeviceStreamHandler;
use arrow_device::async_stream::{Arrays, AsyncStream, Blocking};
use arrow_device::{Error, ErrorKind};

use crate::{answer, guarded, read_all};

/// What reads one stream.
#[derive(Debug)]
pub struct AdpReader(Blocking<Arrays>);

/// See `c/peer.h`.
///
/// # Safety
/// `handler` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_async_open(
    window: usize,
    handler: *mut *mut ArrowAsyncDeviceStreamHandler,
) -> *mut AdpReader {
    let (stream, ours) = AsyncStream::new(window);
    // SAFETY: `handler` may be written, as the caller promises.
    unsafe { handler.write(ours.into_raw()) };
    Box::into_raw(Box::new(AdpReader(Blocking::new(stream.arrays()))))
}

/// See `c/peer.h`.
///
/// # Safety
/// `reader` is one of [`adp_async_open`] that is not closed, `rows` may be written, and `message`
/// is null or has room for `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_async_next(
    reader: *mut AdpReader,
    rows: *mut i64,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    let mut count = -1;
    let outcome = guarded(|| {
        // SAFETY: `reader` is one of `adp_async_open` that is not closed, `rows` may be written,
        // and `message` is null or has room for `message_size` bytes, as the caller promises.
        let reader = unsafe { reader.as_mut() };
        let reader =
            reader.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "there is no reader"))?;
        if let Some(array) = reader.0.next() {
            let array = array?;
            read_all(&array.host()?)?;
            count = array.len() as i64;
        }
        Ok(())
    });
    // SAFETY: `reader` is one of `adp_async_open` that is not closed, `rows` may be written, and
    // `message` is null or has room for `message_size` bytes, as the caller promises.
    unsafe { rows.write(count) };
    // SAFETY: `reader` is one of `adp_async_open` that is not closed, `rows` may be written, and
    // `message` is null or has room for `message_size` bytes, as the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/peer.h`.
///
/// # Safety
/// `reader` is null, or one of [`adp_async_open`] that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_async_close(reader: *mut AdpReader) {
    if reader.is_null() {
        return;
    }
    // SAFETY: `reader` is null, or one of `adp_async_open` that is not closed, as the caller
    // promises: it was boxed, and is closed once.
    drop(unsafe { Box::from_raw(reader) });
}
