//! A context, a queue and a memory object that the application made with `opencl3`, shared with
//! this library: columns are made of the application's buffers, and the application's kernels read
//! columns.
//!
//! `cargo run --package=example-opencl3`

use std::error::Error;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use arrow_device::driver::Raw;
use arrow_device::types::Int32;
use arrow_device::{Array, Buffer, DataType};
use arrow_device_opencl::{Kind, open_from};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device as ClDevice};
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{Buffer as ClBuffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_mem};

const ROWS: usize = 1000;
const SOURCE: &str = "
kernel void squares(global int* squares) {
    int row = get_global_id(0);
    squares[row] = row * row;
}
kernel void halves(global const int* numbers, global int* halves) {
    int row = get_global_id(0);
    halves[row] = numbers[row] / 2;
}";

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(why) = arrow_device_opencl::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    // The application's own: a context, a queue, kernels, two memory objects.
    let platform = get_platforms()?.into_iter().next().ok_or("no platform")?;
    let listed = platform.get_devices(CL_DEVICE_TYPE_ALL)?.into_iter().next().ok_or("no device")?;
    let context = Context::from_device(&ClDevice::new(listed))?;
    // SAFETY: the device is the context's.
    let cl_queue = unsafe { CommandQueue::create_with_properties(&context, listed, 0, 0) }?;
    let cl_queue = Arc::new(cl_queue);
    let program = Program::create_and_build_from_source(&context, SOURCE, "")?;
    let (squares, halves) =
        (Kernel::create(&program, "squares")?, Kernel::create(&program, "halves")?);
    let make = || {
        // SAFETY: nothing of the host's is in it.
        unsafe { ClBuffer::<i32>::create(&context, CL_MEM_READ_WRITE, ROWS, null_mut()) }
    };
    let (made, answer) = (make()?, make()?);

    // The library in the application's context, and the application's queue as one of its own.
    let (of, which) = (handle(context.get())?, handle(listed)?);
    // SAFETY: UNS-29: both are alive, and `opencl3` has them from the loader of this process.
    let device = unsafe { open_from(of, which, Kind::Buffers) }?;
    // SAFETY: UNS-20: the queue is one of this context and device, and the owner keeps it open.
    let queue = unsafe { device.adopt_queue_of(Raw::from_ptr(cl_queue.get()), cl_queue.clone()) };
    println!("opened {device:?} in the application's context");

    // A kernel of the application fills its memory object, and nobody waits for the kernel. The
    // column of it comes behind what the queue was given by now.
    let mut fill = ExecuteKernel::new(&squares);
    // SAFETY: the kernel's only argument is a buffer.
    unsafe { fill.set_arg(&made) }.set_global_work_size(ROWS);
    // SAFETY: the buffer has a number for each row.
    unsafe { fill.enqueue_nd_range(&cl_queue) }?;
    let (base, size) = (made.get(), (ROWS * size_of::<i32>()) as u64);
    // SAFETY: UNS-17: the memory object has this size, its owner keeps it, and nobody writes to it
    // after the kernel, which comes before the event of the array.
    let column = unsafe { Buffer::foreign(device.id(), base, size, made) };
    let numbers = Array::builder(DataType::Int32)
        .len(ROWS)
        .buffers([None, Some(column)])
        .finish_on(&queue)?;
    let on_host = numbers.to_host()?;
    assert_eq!(on_host.host()?.values::<i32>()?.get(31), Some(961));

    // The other way round: a column that this library has copied to the device, for a kernel of the
    // application. The queue waits for the column, and the view keeps it until the kernel is done.
    let there = Array::of::<Int32>((0..ROWS as i32).map(Some))?.copy_to(&device.open_queue()?)?;
    let view = there.on(&queue)?;
    let column: cl_mem = view.buffer(1).location().handle().0;
    let mut halve = ExecuteKernel::new(&halves);
    // SAFETY: the kernel's first argument is a buffer, from which it only reads.
    unsafe { halve.set_arg(&column) };
    // SAFETY: the kernel's second argument is a buffer.
    unsafe { halve.set_arg(&answer) }.set_global_work_size(ROWS);
    // SAFETY: both buffers have a number for each row.
    unsafe { halve.enqueue_nd_range(&cl_queue) }?;
    drop(view);
    let mut read = vec![0_i32; ROWS];
    // SAFETY: the read has ended when the call returns, so that the vector outlives the read.
    unsafe { cl_queue.enqueue_read_buffer(&answer, CL_BLOCKING, 0, &mut read, &[]) }?;
    println!("the application's kernel has halved the column: {:?}, ...", &read.get(..5));
    assert!(read.iter().enumerate().all(|(row, half)| *half as usize == row / 2));
    Ok(())
}

/// A handle of `opencl3`, which is null for nothing that lives.
fn handle(raw: *mut c_void) -> Result<NonNull<c_void>, Box<dyn Error>> {
    Ok(NonNull::new(raw).ok_or("a null handle")?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs() {
        if let Err(why) = arrow_device_opencl::is_available() {
            return arrow_device_testkit::required::skip("opencl", &why.to_string());
        }
        super::main().unwrap();
    }
}
