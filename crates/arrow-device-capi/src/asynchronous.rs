//! Between streams that are asked and streams that are pushed.

use std::ffi::c_int;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_device::abi::ArrowAsyncDeviceStreamHandler;
use arrow_device::async_stream::{AsyncProducer, AsyncStream, Ending, block_on};
use arrow_device::{ArrayStream, Error, ErrorKind};
use futures_core::Stream;

use crate::call::{Out, get, null, run};
use crate::error::ArdevError;
use crate::stream::ArdevStream;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_from_async(
    window: usize,
    handler: *mut *mut ArrowAsyncDeviceStreamHandler,
    out: *mut *mut ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let handler = unsafe { Out::new(handler, std::ptr::null_mut(), "handler") };
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let handler = handler?;
        let (stream, given) = AsyncStream::new(window);
        handler.put(given.into_raw())?;
        out.give(ArdevStream::awaited(stream))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_drive(
    stream: *const ArdevStream,
    handler: *mut ArrowAsyncDeviceStreamHandler,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        if handler.is_null() {
            return Err(null("handler"));
        }
        // SAFETY: rule 2 of the header.
        let taken = unsafe { get(stream, "stream") }.and_then(ArdevStream::take);
        let stream = match taken {
            Ok(stream) => stream,
            Err(error) => {
                // SAFETY: the header asks for a handler that is this function's.
                unsafe { release(handler) };
                return Err(error);
            }
        };
        let (schema, device_type) = (stream.schema().clone(), stream.device_type());
        let producer = AsyncProducer::new(schema, device_type, Asked(stream));
        // SAFETY: the header asks for a handler as the Arrow C device interface has it.
        let drive = unsafe { producer.drive(handler) }?;
        match block_on(drive)? {
            Ending::Finished => Ok(()),
            Ending::Cancelled => Err(Error::new(ErrorKind::Cancelled, "the consumer cancelled")),
        }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// Releases a handler that there is nothing for.
///
/// # Safety
/// The handler is one that nothing was called on, and that nobody else will call.
unsafe fn release(handler: *mut ArrowAsyncDeviceStreamHandler) {
    // SAFETY: the handler is one that nothing was called on, and that nobody else will call, as the
    // caller promises.
    let release = unsafe { (*handler).release };
    if let Some(release) = release {
        // SAFETY: "release the handler": a producer may do so before anything else.
        unsafe { release(handler) }
    }
}

/// An iterator as a stream, which blocks the thread that polls it: the one that drives.
struct Asked(ArrayStream);

impl Stream for Asked {
    type Item = <ArrayStream as Iterator>::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}
