//! Streams, events and slices of cudarc on the simulated driver, in a child process that finds it
//! where cudarc looks.

mod reads;

use arrow_device::{Array, DataType};
use arrow_device_cuda::interop;
use arrow_device_testkit::process::{self, Child};
use cudarc::driver::CudaContext;
use gpu_backends::cudarc_exchange;
use simulated_gpu_drivers::{Simulated, Vendor};

/// Tells the child where the simulated driver is.
const PATH: &str = "SIMULATED_DRIVER_OF_THE_PARENT";

/// Runs a test in a child process, where cudarc finds the simulated driver. The driver has to have
/// seen no mistake in the end.
fn on_simulated(test: fn(&Simulated)) {
    if process::is_child() {
        let path = std::env::var_os(PATH).unwrap();
        let sim = Simulated::builder(Vendor::Cuda).devices(2).peers(true).open(path);
        return test(&sim);
    }
    let sim = Simulated::builder(Vendor::Cuda).load();
    Child::of_this_test()
        .env(PATH, sim.path())
        .env("LD_LIBRARY_PATH", sim.path().parent().unwrap())
        .env_remove("ARROW_DEVICE_CUDA_LIBRARY")
        .run()
        .expect_success();
}

#[test]
fn streams_events_and_slices_become_ours_and_come_back() {
    on_simulated(|_| cudarc_exchange::streams_events_and_slices());
}

// Requirement: SAF-7, SAF-9
#[test]
fn an_array_of_a_slice_is_ready_no_sooner_than_the_slice() {
    on_simulated(|_| {
        let context = CudaContext::new(0).unwrap();
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let numbers = stream.clone_htod(&[1_i32, 2, 3]).unwrap();
        let buffers = [None, Some(interop::buffer(numbers).unwrap())];
        let array = Array::builder(DataType::Int32).len(3).buffers(buffers).finish_ready();
        let Ok(array) = array else { return };
        let elsewhere = interop::queue(&other).unwrap();
        let view = array.on(&elsewhere).unwrap();
        let lent = interop::slice::<i32>(&view.root(), 1, 0..3, &other).unwrap();
        assert_eq!(other.clone_dtoh(&lent).unwrap(), [1, 2, 3]);
    });
}
