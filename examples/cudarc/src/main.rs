//! Slices of `cudarc` as columns, and columns as slices, on the application's own streams, without
//! a copy and without a wait of the host.
//!
//! `cargo run --package=example-cudarc` on a machine with a GPU of NVIDIA. The test runs the same
//! on a simulated driver, which reports every missing wait and every use after the end.

use std::error::Error;

use arrow_device::types::Int32;
use arrow_device::{Array, DataType};
use arrow_device_cuda::interop;
use cudarc::driver::CudaContext;

fn main() -> Result<(), Box<dyn Error>> {
    // Before the first call of `cudarc`, which panics where there is no driver.
    if let Err(why) = arrow_device_cuda::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    // The application's own: a context, two streams, a slice that one of them fills.
    let context = CudaContext::new(0)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let slice = stream.clone_htod(&[1_i32, 2, 3])?;

    // A column of the slice. The column owns the slice, and is ready when the stream has come so
    // far, which nobody waits for here.
    let queue = interop::queue(&stream)?;
    let buffers = [None, Some(interop::buffer(slice)?)];
    let column = Array::builder(DataType::Int32).len(3).buffers(buffers).finish_on(&queue)?;
    println!("a column on {}", column.device());

    // A slice of the column, for work on another stream. The view makes that stream wait for the
    // column, and keeps the column until the stream has passed the work.
    let elsewhere = interop::queue(&other)?;
    let view = column.on(&elsewhere)?;
    let elements = interop::slice::<i32>(&view.root(), 1, 0..3, &other)?;
    let mut copied = other.alloc_zeros::<i32>(3)?;
    other.memcpy_dtod(&elements, &mut copied)?;
    drop(elements);
    drop(view);
    assert_eq!(other.clone_dtoh(&copied)?, [1, 2, 3]);

    // Any other column of the device will do, such as one that this library has copied there.
    let there = Array::of::<Int32>([Some(4), Some(5)])?.copy_to(&queue)?;
    let view = there.on(&elsewhere)?;
    let elements = interop::slice::<i32>(&view.root(), 1, 1..2, &other)?;
    assert_eq!(other.clone_dtoh(&elements)?, [5]);
    // On a stream that the view does not name, the read is refused.
    let refused = stream.clone_dtoh(&elements);
    println!("elsewhere: {refused:?}");
    assert!(refused.is_err());
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_device_testkit::process::{self, Child};
    use simulated_gpu_drivers::{Simulated, Vendor};

    /// Tells the child where the simulated driver is.
    const PATH: &str = "SIMULATED_DRIVER_OF_THE_PARENT";

    /// In a child process, where both libraries find the simulated driver by the name of NVIDIA's.
    #[test]
    fn the_example_runs_on_the_simulated_driver_without_a_mistake() {
        if process::is_child() {
            let path = std::env::var_os(PATH).unwrap();
            let sim = Simulated::builder(Vendor::Cuda).devices(1).open(path);
            super::main().unwrap();
            let time = std::time::Duration::from_secs(30);
            arrow_device::deferred::wait_until_released(time).unwrap();
            let reports: Vec<_> = sim.take_reports().iter().map(ToString::to_string).collect();
            assert!(reports.is_empty(), "{reports:#?}");
            // What the example does has been done here, and was not skipped.
            assert!(sim.count("cuMemcpyDtoDAsync_v2") > 0);
            return;
        }
        let sim = Simulated::builder(Vendor::Cuda).load();
        Child::of_this_test()
            .env(PATH, sim.path())
            .env("LD_LIBRARY_PATH", sim.path().parent().unwrap())
            .env_remove("ARROW_DEVICE_CUDA_LIBRARY")
            .run()
            .expect_success();
    }
}
