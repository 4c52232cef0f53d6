//! A table that an OpenCL kernel makes, handed over before the kernel has begun.
//!
//! The producer submits a kernel that computes two columns, and exports the table with an event
//! instead of waiting. The consumer knows only the two C structs: it finds the OpenCL context by a
//! handle in them, submits its own work, and gets the right values, because its queue waits for the
//! event. So that this cannot come out right by luck, the producer's queue is held back until the
//! consumer has submitted everything.
//!
//! `cargo run -p arrow-device-opencl --example kernel`

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Duration;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, Batch, DataType, Device, Event, Field, Memory, Queue, Schema};
use arrow_device_testkit::application::Attempt;
use arrow_device_testkit::application::opencl::{Cl, ClHandle, UserEventGate};

pub(crate) const ROWS: usize = 1000;
const SIZE: u64 = (ROWS * size_of::<i32>()) as u64;
const SOURCE: &str = "kernel void squares(global int* numbers, global int* squares) {
    int row = get_global_id(0);
    numbers[row] = row;
    squares[row] = row * row;
}";

pub(crate) fn main() -> Attempt<()> {
    if let Err(why) = arrow_device_opencl::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    let (cl, device) = (Cl::load()?, arrow_device_opencl::open(0)?);
    println!("opened {device:?}");
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    let mut gate = produce(&cl, &device, &mut c_schema, &mut c_array)?;
    println!("the producer has exported a table that is not computed yet");

    let sums = Consumer::submit(&mut c_schema, &mut c_array)?;
    assert!(!sums.is_there_within(Duration::from_millis(50))?);
    println!("the consumer has submitted its work, which waits");

    gate.open()?;
    let squares = sums.finish()?;
    println!("the squares are {:?}, ...", squares.iter().take(5).collect::<Vec<_>>());
    assert!(squares == expected());
    Ok(())
}

pub(crate) fn expected() -> Vec<i32> {
    (0..ROWS as i32).map(|row| row * row).collect()
}

/// Submits the kernel behind a gate and exports the table without waiting.
pub(crate) fn produce<'cl>(
    cl: &'cl Cl,
    device: &Device,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Attempt<UserEventGate<'cl>> {
    let queue = device.open_queue()?;
    let raw = queue.raw().as_ptr();
    let column = || -> Attempt<(Memory, ClHandle)> {
        let mut memory = queue.allocate(SIZE)?;
        // What is there as long as the kernel has not run.
        memory.write(&queue, &[0xff; SIZE as usize])?;
        let handle = memory.spot(&queue)?.base.as_ptr();
        Ok((memory, handle))
    };
    let (numbers, numbers_handle) = column()?;
    let (squares, squares_handle) = column()?;

    let gate = UserEventGate::before(cl, raw)?;
    let kernel = cl.create_kernel(cl.home_of(raw)?.0, SOURCE, "squares")?;
    cl.launch(raw, kernel, &[numbers_handle, squares_handle], ROWS)?;
    cl.call("clReleaseKernel", kernel)?;

    let array = |memory: Memory| {
        let buffers = [None, Some(memory.into_buffer())];
        Array::builder(DataType::Int32).len(ROWS).buffers(buffers).finish_on(&queue)
    };
    let schema =
        Schema::batch(["number", "square"].map(|name| Field::new(name, DataType::Int32, false)))?;
    let batch = Batch::new(schema, [array(numbers)?, array(squares)?])?;
    batch.schema()?.export(c_schema)?;
    batch.export_on(&queue, c_array)?;
    Ok(gate)
}

/// What a consumer has submitted; to be finished.
pub(crate) struct Consumer {
    queue: Queue,
    done: Event,
    squares: Vec<i32>,
}

impl Consumer {
    /// Takes the table over, has its second column copied, and waits for nothing.
    pub(crate) fn submit(
        c_schema: &mut ArrowSchema,
        c_array: &mut ArrowDeviceArray,
    ) -> Attempt<Self> {
        let handle = first_handle(&c_array.array).ok_or("the table has no data")?;
        // SAFETY: by the convention for OpenCL's device type the handle is a `cl_mem`, alive as
        // long as the array.
        let device = unsafe { arrow_device_opencl::open_for(handle, c_array.device_id) }?;
        // SAFETY: both structs were filled by a producer that keeps to the interface.
        let schema = unsafe { Schema::import(c_schema) }?;
        // SAFETY: both structs were filled by a producer that keeps to the interface.
        let batch = unsafe { Batch::import(c_array, &schema) }?;

        // A queue of the consumer's own. From here on it waits for the table's event; this thread
        // does not.
        let queue = device.open_queue()?;
        let view = batch.as_array().on(&queue)?;
        let from = view.child(1)?.buffer(1).location().spot();
        let mut squares = vec![0; batch.row_count()];
        let to = Spot { base: Raw::from_ptr(squares.as_mut_ptr().cast()), offset: 0 };
        let region = Region { from, to, len: size_of_val(squares.as_slice()) as u64 };
        // SAFETY: the column has this many values, and the vector stays until the queue has passed
        // the copy.
        unsafe { queue.copy(Route::ToHost, &[region]) }?;
        // The table is let go of here; it is kept until the queue has passed the copy.
        drop(view);
        match queue.record() {
            Ok(done) => Ok(Self { queue, done, squares }),
            Err(error) => {
                queue.keep_until_done(squares);
                Err(error.into())
            }
        }
    }

    pub(crate) fn is_there_within(&self, time: Duration) -> Attempt<bool> {
        Ok(self.done.wait_timeout(time)?)
    }

    pub(crate) fn finish(self) -> Attempt<Vec<i32>> {
        match self.queue.synchronize() {
            Ok(()) => Ok(self.squares),
            Err(error) => {
                self.queue.keep_until_done(self.squares);
                Err(error.into())
            }
        }
    }
}

/// A buffer somewhere in an array.
fn first_handle(array: &ArrowArray) -> Option<NonNull<c_void>> {
    let own = entries(array.buffers, array.n_buffers);
    own.iter().find_map(|buffer| NonNull::new(buffer.cast_mut())).or_else(|| {
        let children = entries(array.children, array.n_children).iter();
        // SAFETY: an array's children are alive as long as it is.
        children.copied().find_map(|child| first_handle(unsafe { &*child }))
    })
}

/// A table of an array that is alive.
fn entries<'a, T>(table: *mut T, count: i64) -> &'a [T] {
    if table.is_null() {
        return &[];
    }
    // SAFETY: the tables of a live array have as many entries as it says, and stay as long.
    unsafe { std::slice::from_raw_parts(table, count as usize) }
}
