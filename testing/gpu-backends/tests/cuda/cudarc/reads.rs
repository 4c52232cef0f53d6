//! Elements of a view that cudarc reads: on the view's stream, on others, on another device.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, ErrorKind, Queue, deferred};
use arrow_device_cuda::interop;
use cudarc::driver::sys::{CUstreamCaptureMode, cudaError_enum};
use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DeviceSlice, result};
use simulated_gpu_drivers::{Simulated, Vendor};

use super::on_simulated;

const LEN: usize = 1024;

/// An array that a kernel on this stream is writing: each byte is 1.
fn being_written(sim: &Simulated, stream: &Arc<CudaStream>) -> (Array, Queue) {
    let numbers = stream.alloc_zeros::<i32>(LEN).unwrap();
    let (address, guard) = numbers.device_ptr(stream);
    drop(guard);
    let kernel = sim.kernel("fill").writes(address, numbers.num_bytes() as u64);
    let handle = stream.cu_stream().addr() as u64;
    assert_eq!(kernel.launch(handle, |memory| memory.output(0).fill(1)), 0);
    let queue = interop::queue(stream).unwrap();
    let buffers = [None, Some(interop::buffer(numbers).unwrap())];
    let builder = Array::builder(DataType::Int32).len(LEN).buffers(buffers);
    (builder.finish_on(&queue).unwrap(), queue)
}

/// Waits for this stream alone, and for the release of what waited for it; then the others go on.
fn pass(sim: &Simulated, stream: &CudaStream) {
    stream.synchronize().unwrap();
    deferred::wait_until_released(Duration::from_secs(30)).unwrap();
    sim.run_until_idle();
}

// Requirement: SAF-6, SAF-13
#[test]
fn a_stream_that_the_view_does_not_name_reads_nothing() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let far = CudaContext::new(1).unwrap().new_stream().unwrap();
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let (array, queue) = being_written(sim, &stream);
        let view = array.on(&queue).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, &stream).unwrap();
        for reader in [&other, &context.default_stream(), &far, lent.stream()] {
            assert!(reader.clone_dtoh(&lent).is_err());
            let error = reader.context().check_err().unwrap_err();
            assert_eq!(error.0, cudaError_enum::CUDA_ERROR_NOT_PERMITTED);
        }
        for reader in [&other, &far] {
            let mut copy = reader.alloc_zeros::<i32>(LEN).unwrap();
            assert!(reader.memcpy_dtod(&lent, &mut copy).is_err());
            let _ = reader.context().check_err();
        }
        drop(lent);
        drop((view, array, queue));
        pass(sim, &stream);
    });
}

/// cudarc asks for the address on the stream of the elements, and reads on another device's.
// Requirement: SAF-13
#[test]
fn elements_on_the_default_stream_are_not_copied_to_another_device() {
    on_simulated(|sim| {
        let stream = CudaContext::new(0).unwrap().default_stream();
        let far = CudaContext::new(1).unwrap().new_stream().unwrap();
        let (array, queue) = being_written(sim, &stream);
        let view = array.on(&queue).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, &stream).unwrap();
        assert_eq!(*lent.stream(), stream);
        let mut copy = far.alloc_zeros::<i32>(LEN).unwrap();
        assert!(far.memcpy_dtod(&lent, &mut copy).is_err());
        assert_eq!(stream.clone_dtoh(&lent).unwrap(), [0x0101_0101; LEN]);
        drop(lent);
        drop((view, array, queue));
        pass(sim, &stream);
    });
}

// Requirement: SAF-6, SAF-13
#[test]
fn streams_with_a_view_each_read_in_order_and_memory_is_kept_for_all() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let others = [context.new_stream().unwrap(), context.new_stream().unwrap()];
        let (array, queue) = being_written(sim, &stream);
        let mut copies = others.each_ref().map(|on| on.alloc_zeros::<i32>(LEN).unwrap());
        for (on, to) in others.iter().zip(&mut copies) {
            let view = array.on(&interop::queue(on).unwrap()).unwrap();
            let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, on).unwrap();
            on.memcpy_dtod(&lent, to).unwrap();
        }
        drop((array, queue));
        stream.synchronize().unwrap();
        deferred::release_finished();
        for (on, copy) in others.iter().zip(&copies) {
            assert_eq!(on.clone_dtoh(copy).unwrap(), [0x0101_0101; LEN]);
        }
        pass(sim, &stream);
    });
}

// Requirement: SAF-13
#[test]
fn elements_that_are_forgotten_free_nothing_early() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let (stream, writer) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let (array, written_on) = being_written(sim, &writer);
        let queue = interop::queue(&stream).unwrap();
        let view = array.on(&queue).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, &stream).unwrap();
        let mut copy = stream.alloc_zeros::<i32>(LEN).unwrap();
        stream.memcpy_dtod(&lent, &mut copy).unwrap();
        std::mem::forget(lent);
        drop((view, array, queue, written_on));
        writer.synchronize().unwrap();
        deferred::release_finished();
        assert_eq!(stream.clone_dtoh(&copy).unwrap(), [0x0101_0101; LEN]);
        pass(sim, &stream);
        assert_eq!(sim.count("cuMemFreeAsync"), 1, "the memory of the array, once");
    });
}

/// The graph could be launched after the view is gone.
// Requirement: SAF-13
#[test]
fn a_graph_that_is_captured_reads_nothing() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let (array, queue) = being_written(sim, &stream);
        let view = array.on(&queue).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, &stream).unwrap();
        let mut copy = stream.alloc_zeros::<i32>(LEN).unwrap();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        assert!(stream.memcpy_dtod(&lent, &mut copy).is_err());
        let error = context.check_err().unwrap_err();
        assert_eq!(error.0, cudaError_enum::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        // SAFETY: the stream is alive; its graph is left alone.
        unsafe { result::stream::end_capture(stream.cu_stream()) }.unwrap();
        drop(lent);
        drop((view, array, queue));
        pass(sim, &stream);
    });
}

// Requirement: SAF-13
#[test]
fn a_read_that_may_be_captured_fails() {
    const OUT_OF_MEMORY: i32 = 2;
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let (array, queue) = being_written(sim, &stream);
        let view = array.on(&queue).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..LEN, &stream).unwrap();
        sim.fail("cuStreamIsCapturing", 1, OUT_OF_MEMORY);
        assert!(stream.clone_dtoh(&lent).is_err());
        assert_eq!(context.check_err().unwrap_err().0 as i32, OUT_OF_MEMORY);
        assert_eq!(stream.clone_dtoh(&lent).unwrap(), [0x0101_0101; LEN]);
    });
}

// Requirement: SAF-9
#[test]
fn a_slice_that_cannot_be_ordered_is_no_buffer() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let mut numbers = stream.alloc_zeros::<i32>(LEN).unwrap();
        stream.synchronize().unwrap();
        other.memcpy_htod(&[1; LEN], &mut numbers).unwrap();
        sim.fail("cuStreamWaitEvent", 1, 2);
        let error = interop::buffer(numbers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Driver, "{error}");
    });
}

/// The per-thread default stream of the thread that hands the slice over is not the one that the
/// slice is written on.
// Requirement: SAF-9
#[test]
fn a_slice_of_another_threads_default_stream_is_waited_for() {
    on_simulated(|_| {
        let _open = arrow_device_cuda::open(0).unwrap();
        let context = CudaContext::new(0).unwrap();
        let of_thread = context.per_thread_stream();
        let write = || of_thread.alloc_zeros::<i32>(LEN).unwrap();
        let numbers = std::thread::scope(|scope| scope.spawn(write).join().unwrap());
        let buffers = [None, Some(interop::buffer(numbers).unwrap())];
        let builder = Array::builder(DataType::Int32).len(LEN).buffers(buffers);
        let host = builder.finish_ready().unwrap().to_host().unwrap();
        let values = host.host().unwrap();
        assert!(values.values::<i32>().unwrap().iter().all(|value| value == Some(0)));
    });
}

// Requirement: SAF-6
#[test]
fn a_view_for_another_stream_lends_nothing() {
    on_simulated(|sim| {
        let context = CudaContext::new(0).unwrap();
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let (array, queue) = being_written(sim, &stream);
        let (mine, elsewhere) = being_written(sim, &other);
        let (view, my_view) = (array.on(&queue).unwrap(), mine.on(&elsewhere).unwrap());
        let lent = interop::slice::<i32>(&my_view.root(), 1, 0..LEN, &other).unwrap();
        assert_eq!(other.clone_dtoh(&lent).unwrap(), [0x0101_0101; LEN]);
        let error = interop::slice::<i32>(&view.root(), 1, 0..LEN, &other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    });
}

/// Null is the default stream of each device and of each vendor.
// Requirement: SAF-11
#[test]
fn a_view_of_another_runtime_is_for_another_stream_also_where_the_handles_are_equal() {
    on_simulated(|_| {
        let hip = Simulated::builder(Vendor::Hip).load();
        // SAFETY: the test is alone in its process, and no other thread reads the environment.
        unsafe { std::env::set_var("ARROW_DEVICE_HIP_LIBRARY", hip.path()) };
        let device = arrow_device_rocm::open(0).unwrap();
        // SAFETY: UNS-20: null is the default stream, which is always there.
        let queue = unsafe { device.adopt_queue(Raw::NULL) };
        let array = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
        let view = array.copy_to(&queue).unwrap().on(&queue).unwrap();
        let context = CudaContext::new(0).unwrap();
        let stream = context.default_stream();
        assert_eq!(queue.raw().as_ptr(), stream.cu_stream().cast());
        let far = CudaContext::new(1).unwrap().default_stream();
        let of_each = [&stream, &far].map(|stream| interop::queue(stream).unwrap());
        assert!(!of_each[0].is_same(&of_each[1]) && !of_each[0].is_same(&queue));
        let error = interop::slice::<i32>(&view.root(), 1, 0..2, &stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        // SAFETY: nothing is made.
        let error = unsafe { interop::stream(&queue, &context) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    });
}
