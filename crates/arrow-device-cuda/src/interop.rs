//! Streams, events and memory of [`cudarc`] as queues, events and buffers, and back.
//!
//! ```no_run
//! use arrow_device::{Array, DataType};
//! use arrow_device_cuda::interop;
//! use cudarc::driver::CudaContext;
//!
//! let context = CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let numbers = stream.clone_htod(&[1_i32, 2, 3])?;
//! let queue = interop::queue(&stream)?;
//! let buffers = [None, Some(interop::buffer(numbers)?)];
//! let array =
//!     Array::builder(DataType::Int32).len(3).buffers(buffers).finish_on(&queue)?;
//!
//! let view = array.on(&queue)?;
//! let numbers = interop::slice::<i32>(&view, view.buffer(1), 3, &stream)?;
//! assert_eq!(stream.clone_dtoh(&numbers.as_view())?, [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which CUDA `cudarc` is compiled for is for the application to choose, by its features; this
//! crate chooses none. Whoever has a `CudaStream` has the driver, so the panics of `cudarc` where
//! there is none do not occur here.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, CudaView, DevicePtr, DriverError,
};
use arrow_device::driver::Raw;
use arrow_device::{
    Buffer, BufferPlace, Device, Error, ErrorKind, Event, Plain, Queue, Result, View,
};

/// `cudaStreamPerThread`.
const PER_THREAD: usize = 2;

/// The queue that a stream is, which keeps the stream.
///
/// The per-thread default stream is [`Unsupported`](ErrorKind::Unsupported): it is another stream
/// on each thread, and queues go from thread to thread.
pub fn queue(stream: &Arc<CudaStream>) -> Result<Queue> {
    let raw = stream.cu_stream().cast::<c_void>();
    if raw.addr() == PER_THREAD {
        let message = "the per-thread default stream is another one on each thread; make a stream";
        return Err(Error::new(ErrorKind::Unsupported, message).during("adopt a stream"));
    }
    let device = device_of(stream.context())?;
    // SAFETY: the stream is one of the device's primary context, and stays open as long as the
    // owner.
    Ok(unsafe { device.adopt_queue_of(Raw::from_ptr(raw), stream.clone()) })
}

/// The stream that a queue is.
///
/// # Safety
/// The queue, or a clone of it, is kept as long as any clone of the result, and of what is made
/// with it (UNS-29).
pub unsafe fn stream(queue: &Queue, context: &Arc<CudaContext>) -> Result<Arc<CudaStream>> {
    let device = device_of(context)?;
    queue.reaches(device.id())?;
    if queue.device().id().id != device.id().id {
        let message = format!("the queue is one of {}", queue.device().id());
        return Err(Error::new(ErrorKind::InvalidArgument, message).on_device(device.id()));
    }
    // SAFETY: it is a stream of this context; that it lives long enough is promised by the caller.
    Ok(unsafe { context.wrap_borrowed_stream(queue.raw().as_ptr().cast()) })
}

/// The event that was recorded, which is kept.
pub fn event(event: CudaEvent) -> Result<Event> {
    let device = device_of(event.context())?;
    let raw = Raw::from_ptr(event.cu_event().cast::<c_void>());
    // SAFETY: it is an event of the CUDA runtime and stays alive as long as the owner.
    Ok(unsafe { Event::adopt_of(&device, raw, event) })
}

/// An event on this stream that passes when the other one has, and what was submitted to the stream
/// before. (`cudarc` takes no foreign events.)
pub fn cuda_event(event: &Event, stream: &Arc<CudaStream>) -> Result<CudaEvent> {
    queue(stream)?.wait(event)?;
    stream.record_event(None).map_err(said)
}

/// The memory of a slice, which is kept and goes back to its stream in the end.
///
/// Whatever `cudarc` knows to write there is ordered before what is submitted to the slice's stream
/// from now on, and whoever uses the buffer is ordered behind that stream. An array of it is best
/// finished on the [`queue`] of the stream. For a slice of the per-thread default stream, which is
/// no queue, this waits.
pub fn buffer<T: Send + Sync + 'static>(slice: CudaSlice<T>) -> Result<Buffer> {
    let device = device_of(slice.context())?;
    let stream = slice.stream().clone();
    let (address, guard) = slice.device_ptr(&stream);
    drop(guard);
    let base = std::ptr::with_exposed_provenance::<c_void>(address as usize);
    let len = slice.num_bytes() as u64;
    let written_on = queue(&stream).ok();
    if written_on.is_none() {
        stream.synchronize().map_err(said)?;
    }
    // SAFETY: UNS-17: the slice has so many bytes on this device, which stay until it is dropped;
    // nobody has it to write there.
    let buffer = unsafe { Buffer::foreign(device.id(), base, len, slice) };
    Ok(match written_on {
        Some(queue) => buffer.written_on(&queue),
        None => buffer,
    })
}

/// Elements of a buffer of an array, as `cudarc` takes them, as long as the view is there.
#[derive(Debug)]
pub struct Elements<'view, T> {
    /// Given up in the end, and never freed: the memory is the array's.
    slice: ManuallyDrop<CudaSlice<T>>,
    view: PhantomData<&'view View>,
}

/// The first `len` elements of a buffer of a view, whose queue is this stream.
///
/// The elements are of a type of which all bytes are a value, because nobody looked at them:
///
/// ```compile_fail,E0277
/// # use std::sync::Arc;
/// # use arrow_device::View;
/// # use cudarc::driver::CudaStream;
/// # fn lend(view: &View, stream: &Arc<CudaStream>) -> arrow_device::Result<()> {
/// let flags = arrow_device_cuda::interop::slice::<bool>(view, view.buffer(1), 3, stream)?;
/// # Ok(())
/// # }
/// ```
pub fn slice<'view, T: Plain>(
    view: &'view View,
    buffer: BufferPlace<'view>,
    len: usize,
    stream: &Arc<CudaStream>,
) -> Result<Elements<'view, T>> {
    let refuse = |message: String| {
        let error = Error::new(ErrorKind::InvalidArgument, message).during("lend a buffer");
        Err(error.on_device(view.array().device()))
    };
    let device = view.queue().device().id().id;
    let is_ordered = view.queue().raw().as_ptr() == stream.cu_stream().cast::<c_void>();
    if !is_ordered || usize::try_from(device) != Ok(stream.context().ordinal()) {
        return refuse("the view is for another stream".into());
    }
    let there = buffer.extent().at_least();
    if (len as u64).saturating_mul(size_of::<T>() as u64) > there {
        return refuse(format!("{len} elements asked for, and the buffer has {there} bytes"));
    }
    let address = buffer.location().address().expose_provenance() as u64;
    // SAFETY: the memory has room for so many elements, and any bytes are a `T` (UNS-27); the slice
    // is never freed, and only shown to be read.
    let upgrade = || unsafe { stream.upgrade_device_ptr::<T>(address, len) };
    // It makes events and panics where the driver makes none.
    let slice = catch_unwind(AssertUnwindSafe(upgrade)).map_err(|_| {
        Error::new(ErrorKind::Driver, "the driver made no event").during("lend a buffer")
    })?;
    Ok(Elements { slice: ManuallyDrop::new(slice), view: PhantomData })
}

impl<T> Elements<'_, T> {
    /// The elements, to be read.
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }
}

impl<T> Drop for Elements<'_, T> {
    fn drop(&mut self) {
        // SAFETY: nobody has it after this.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // What frees the memory is the array.
        let _ = slice.leak();
    }
}

/// The device of a context, which has to be the primary one.
fn device_of(context: &Arc<CudaContext>) -> Result<Device> {
    let ordinal = context.ordinal();
    let device = crate::open(ordinal)?;
    let primary = crate::api::load()?.primary(ordinal)?;
    if primary != context.cu_ctx().cast::<c_void>() {
        let message = "it belongs to another context than the device's primary one";
        return Err(Error::new(ErrorKind::NotReachable, message).on_device(device.id()));
    }
    Ok(device)
}

fn said(error: DriverError) -> Error {
    let code = i64::from(error.0 as i32);
    Error::new(ErrorKind::Driver, "cudarc reported an error")
        .from_vendor(code, format!("{:?}", error.0))
}
