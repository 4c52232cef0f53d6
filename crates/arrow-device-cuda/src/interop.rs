//! Converts streams, events and memory of [`cudarc`] to queues, events and buffers, and back.
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
//! let numbers = interop::slice::<i32>(&view.root(), 1, 0..3, &stream)?;
//! assert_eq!(stream.clone_dtoh(&numbers)?, [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The application chooses by features which CUDA `cudarc` is compiled for; this crate chooses
//! none. `cudarc` panics where there is no driver, but a program that has a `CudaStream` has the
//! driver, so these panics do not occur here.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use ::cudarc::driver::sys::{CUdeviceptr, CUstreamCaptureStatus, cudaError_enum};
use ::cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceSlice, DriverError, SyncOnDrop,
};
use arrow_device::driver::Raw;
use arrow_device::{Buffer, Device, Error, ErrorKind, Event, NodeView, Plain, Queue, Result};

/// The handle `cudaStreamPerThread`.
const PER_THREAD: usize = 2;

/// Returns a stream as a queue, which keeps the stream.
///
/// The per-thread default stream is [`Unsupported`](ErrorKind::Unsupported): it means another
/// stream on each thread, and queues go from thread to thread.
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

/// Returns a queue as a stream.
///
/// # Safety
/// The queue, or a clone of it, is kept as long as any clone of the result, and of what is made
/// with it (UNS-29).
pub unsafe fn stream(queue: &Queue, context: &Arc<CudaContext>) -> Result<Arc<CudaStream>> {
    let device = device_of(context)?;
    let is_of = |device: &Device| (device.driver().runtime(), device.id().id);
    if is_of(queue.device()) != is_of(&device) {
        let message = format!("the queue is one of {}", queue.device().id());
        return Err(Error::new(ErrorKind::InvalidArgument, message).on_device(device.id()));
    }
    // SAFETY: the queue is one of the runtime and of the device of this primary context, so that
    // its handle is a stream of the context; the queue is kept as long as the result (UNS-29).
    Ok(unsafe { context.wrap_borrowed_stream(queue.raw().as_ptr().cast()) })
}

/// Returns a recorded event as one of this library, which keeps it.
pub fn event(event: CudaEvent) -> Result<Event> {
    let device = device_of(event.context())?;
    let raw = Raw::from_ptr(event.cu_event().cast::<c_void>());
    // SAFETY: it is an event of the CUDA runtime and stays alive as long as the owner.
    Ok(unsafe { Event::adopt_of(&device, raw, event) })
}

/// Records an event on this stream. It passes when `event` has passed, and all work that was
/// submitted to the stream before. (`cudarc` takes no foreign events.)
pub fn cuda_event(event: &Event, stream: &Arc<CudaStream>) -> Result<CudaEvent> {
    queue(stream)?.wait(event)?;
    stream.record_event(None).map_err(said)
}

/// Returns the memory of a slice as a buffer, which keeps the slice. In the end the memory goes
/// back to the slice's stream.
///
/// Writes that `cudarc` knows of are ordered before the work that is submitted to the slice's
/// stream from now on, and users of the buffer are ordered behind that stream. An array of the
/// buffer is best finished on the [`queue`] of the stream. For a slice of the per-thread default
/// stream, which cannot be a queue, this waits for all work of the context, because the slice may
/// come from another thread, where that name means another stream.
///
/// `cudarc` frees a slice behind the last read that it knows of. Where several streams have read
/// the slice before, and none of them waited for another, the slice's stream has to wait for them
/// ([`CudaStream::join`]) before the slice is handed over.
pub fn buffer<T: Send + Sync + 'static>(slice: CudaSlice<T>) -> Result<Buffer> {
    let device = device_of(slice.context())?;
    let stream = slice.stream().clone();
    let (address, guard) = slice.device_ptr(&stream);
    drop(guard);
    // `device_ptr` leaves its errors in the context.
    slice.context().check_err().map_err(said)?;
    let base = std::ptr::with_exposed_provenance::<c_void>(address as usize);
    let len = slice.num_bytes() as u64;
    let written_on = queue(&stream).ok();
    if written_on.is_none() {
        stream.context().synchronize().map_err(said)?;
    }
    // SAFETY: UNS-17: the slice has so many bytes on this device, which stay until it is dropped;
    // nobody has it to write there.
    let buffer = unsafe { Buffer::foreign(device.id(), base, len, slice) };
    Ok(match written_on {
        Some(queue) => buffer.written_on(&queue),
        None => buffer,
    })
}

/// Elements of a buffer of an array. `cudarc` reads them wherever it takes a [`DevicePtr`], on the
/// stream of the view.
///
/// The stream of the view waits for the data, and the memory is kept until that stream has passed
/// what was submitted. No other stream reads the elements: an array that several streams read has a
/// view for each of them. Reads are refused
///
/// * on another stream than the view's, of this or of another device;
/// * in [`memcpy_dtod`](CudaStream::memcpy_dtod) to another context, which submits the read to a
///   stream that it does not name. [`Array::copy_to`](arrow_device::Array::copy_to) copies from
///   device to device;
/// * on a stream that is capturing a graph, because the graph may run after the view.
///
/// A refused read is given the address null, with which `cudarc`'s copies fail. The reason is
/// stored in the context of the stream, like other errors that `cudarc` cannot return: the next
/// call fails with it, or [`CudaContext::check_err`] returns it.
///
/// A kernel gets the address as an argument. It has to be launched before the guard is dropped:
///
/// ```no_run
/// # use cudarc::driver::{CudaFunction, DevicePtr, DriverError, LaunchConfig, PushKernelArg};
/// # fn launch(
/// #     elements: &arrow_device_cuda::interop::Elements<'_, i32>,
/// #     stream: &cudarc::driver::CudaStream,
/// #     kernel: &CudaFunction,
/// # ) -> Result<(), DriverError> {
/// let (address, _guard) = elements.device_ptr(stream);
/// let mut launch = stream.launch_builder(kernel);
/// launch.arg(&address);
/// // SAFETY: the kernel takes an address of elements of this type, and only reads there.
/// unsafe { launch.launch(LaunchConfig::for_num_elems(3)) }?;
/// # Ok(())
/// # }
/// ```
///
/// The calls of a group of NCCL are submitted at the end of the group, and not when `cudarc` takes
/// the address. So the group has to end before the view is dropped (UNS-15).
///
/// The elements cannot outlive their view:
///
/// ```compile_fail,E0505
/// # use std::sync::Arc;
/// # use arrow_device::View;
/// # use cudarc::driver::CudaStream;
/// # fn lend(view: View, stream: &Arc<CudaStream>) -> Result<(), Box<dyn std::error::Error>> {
/// let numbers = arrow_device_cuda::interop::slice::<i32>(&view.root(), 1, 0..3, stream)?;
/// drop(view);
/// stream.clone_dtoh(&numbers)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Elements<'view, T> {
    address: CUdeviceptr,
    len: usize,
    /// The view's stream.
    reader: Arc<CudaStream>,
    /// The stream that `DeviceSlice::stream` returns. No other value shares it, so a read on this
    /// very stream shows that its caller has asked for the stream, as `cudarc` does when it submits
    /// a read to another stream.
    stream: Arc<CudaStream>,
    elements: PhantomData<&'view [T]>,
}

/// Returns elements of a buffer of a node of a view, whose queue is this stream. They begin at the
/// beginning of the buffer: the node's offset is not added.
///
/// Every sequence of bytes has to be a value of the elements' type, because nobody looked at the
/// bytes:
///
/// ```compile_fail,E0277
/// # use std::sync::Arc;
/// # use arrow_device::View;
/// # use cudarc::driver::CudaStream;
/// # fn lend(view: &View, stream: &Arc<CudaStream>) -> arrow_device::Result<()> {
/// let flags = arrow_device_cuda::interop::slice::<bool>(&view.root(), 1, 0..3, stream)?;
/// # Ok(())
/// # }
/// ```
pub fn slice<'view, T: Plain>(
    node: &NodeView<'view>,
    buffer: usize,
    elements: Range<usize>,
    stream: &Arc<CudaStream>,
) -> Result<Elements<'view, T>> {
    let view = node.view();
    let refuse = |message: String| {
        let error = Error::new(ErrorKind::InvalidArgument, message).during("lend a buffer");
        Err(error.on_device(view.array().device()))
    };
    if !view.queue().is_same(&queue(stream)?) {
        return refuse("the view is for another stream".into());
    }
    let place = node.buffer(buffer);
    let there = place.extent().at_least();
    let bytes = |elements: usize| (elements as u64).saturating_mul(size_of::<T>() as u64);
    if elements.start > elements.end || bytes(elements.end) > there {
        return refuse(format!(
            "elements {elements:?} asked for, and the buffer has {there} bytes"
        ));
    }
    let begin = place.location().address().expose_provenance() as u64;
    Ok(Elements {
        address: begin.wrapping_add(bytes(elements.start)),
        len: elements.len(),
        reader: stream.clone(),
        stream: stream.context().default_stream(),
        elements: PhantomData,
    })
}

impl<T> Elements<'_, T> {
    /// Checks that the view covers a read that is about to be submitted to a stream.
    fn admit(&self, stream: &CudaStream) -> std::result::Result<(), DriverError> {
        if std::ptr::eq(stream, Arc::as_ptr(&self.stream)) || *stream != *self.reader {
            return Err(DriverError(cudaError_enum::CUDA_ERROR_NOT_PERMITTED));
        }
        if stream.capture_status()? != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(DriverError(cudaError_enum::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
        }
        Ok(())
    }
}

impl<T> DeviceSlice<T> for Elements<'_, T> {
    fn len(&self) -> usize {
        self.len
    }

    /// Returns a stream of the context, on which the elements may not be read.
    fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

impl<T> DevicePtr<T> for Elements<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        let admitted = self.admit(stream);
        let address = if admitted.is_ok() { self.address } else { 0 };
        stream.context().record_err(admitted);
        // The view orders the stream behind the data, and ends after the read.
        (address, SyncOnDrop::Record(None))
    }
}

/// Returns the device of a context, which has to be the primary one.
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
