//! What cudarc has becomes this library's, and comes back.

use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_cuda::interop;
use cudarc::driver::CudaContext;

/// Streams, events and slices of the first device.
pub fn streams_events_and_slices() {
    let context = CudaContext::new(0).unwrap();
    let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let numbers = stream.clone_htod(&[1_i32, 2, 3]).unwrap();

    let queue = interop::queue(&stream).unwrap();
    assert_eq!(queue.raw().as_ptr(), stream.cu_stream().cast());
    let buffers = [None, Some(interop::buffer(numbers).unwrap())];
    let array = Array::builder(DataType::Int32).len(3).buffers(buffers).finish_on(&queue).unwrap();
    let host = array.to_host().unwrap();
    let read = host.host().unwrap();
    let values: Vec<Option<i32>> = read.values::<i32>().unwrap().iter().collect();
    assert_eq!(values, [Some(1), Some(2), Some(3)]);

    // Back, on another stream.
    let elsewhere = interop::queue(&other).unwrap();
    let view = array.on(&elsewhere).unwrap();
    let lent = interop::slice::<i32>(&view.root(), 1, 0..3, &other).unwrap();
    assert_eq!(other.clone_dtoh(&lent).unwrap(), [1, 2, 3]);
    let last = interop::slice::<i32>(&view.root(), 1, 2..3, &other).unwrap();
    assert_eq!(other.clone_dtoh(&last).unwrap(), [3]);
    drop(last);
    let error = interop::slice::<i32>(&view.root(), 1, 0..4, &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = interop::slice::<i32>(&view.root(), 1, 0..3, &stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    drop(lent);
    drop(view);

    let event = interop::event(stream.record_event(None).unwrap()).unwrap();
    elsewhere.wait(&event).unwrap();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap());
    let back = interop::cuda_event(&elsewhere.record().unwrap(), &stream).unwrap();
    back.synchronize().unwrap();
    assert!(back.try_is_complete().unwrap());

    let own = arrow_device_cuda::open(0).unwrap().open_queue().unwrap();
    // SAFETY: the queue is kept to the end.
    let lent = unsafe { interop::stream(&own, &context) }.unwrap();
    assert_eq!(lent.cu_stream().cast(), own.raw().as_ptr());
    lent.synchronize().unwrap();
    let per_thread = interop::queue(&context.per_thread_stream()).unwrap_err();
    assert_eq!(per_thread.kind(), ErrorKind::Unsupported, "{per_thread}");
    drop((array, queue, elsewhere));
    arrow_device::deferred::wait_until_released(std::time::Duration::from_secs(30)).unwrap();
}
