//! A WGSL kernel over columns, on a device and a queue of the application.
//!
//! The application has a `WGPUDevice` of its own and opens it for the library. A table from the
//! host is copied there, a kernel of the application adds a column, and the table with the new
//! column is handed over by the C structs. Nobody waits in between: the copy, the kernel and the
//! consumer's copy are in the order of the one queue. Only whoever reads the result on the host
//! waits.
//!
//! `cargo run -p arrow-device-webgpu --example wgsl_kernel`

use std::ffi::CStr;
use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, DataType, Field, Schema};
use arrow_device_testkit::application::Attempt;
use arrow_device_testkit::application::webgpu::{WebGpu, library_file};
use arrow_device_webgpu::{Handles, open_for, open_from};

const ROWS: usize = 1000;
const GROUP: usize = 64;
const SQUARES: &CStr = c"
@group(0) @binding(0) var<storage, read> numbers: array<i32>;
@group(0) @binding(1) var<storage, read_write> squares: array<i32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < 1000u) {
        squares[at.x] = numbers[at.x] * numbers[at.x];
    }
}";

pub(crate) fn main() -> Attempt<()> {
    let Some(library) = library_file() else {
        println!("skipped: name a WebGPU library in ARROW_DEVICE_WEBGPU_LIBRARY");
        return Ok(());
    };
    let web = match WebGpu::of_library(&library) {
        Ok(web) => Arc::new(web),
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let handles = Handles::new(web.device(), web.queue())
        .with_library(library)
        .with_loss(web.is_lost())
        .kept_by(web.clone());
    // SAFETY: the handles are of one device of that library, and are kept by their owner.
    let device = unsafe { open_from(handles) }?;
    println!("opened {device:?}");

    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    {
        let queue = device.open_queue()?;
        let numbers = Array::from_values(DataType::Int32, (0..ROWS as i32).map(Some))?;
        let numbers = numbers.copy_to(&queue)?;
        let mut squares = queue.allocate((ROWS * size_of::<i32>()) as u64)?;
        // What is there as long as the kernel has not run.
        squares.write(&queue, &[0xff; ROWS * size_of::<i32>()])?;
        // The kernel reads one buffer and writes the other.
        let view = numbers.on(&queue)?;
        let from = view.buffer(1).location().spot().base.as_ptr();
        let to = squares.spot(&queue)?.base.as_ptr();
        web.run(SQUARES, &[from, to], ROWS.div_ceil(GROUP) as u32)?;
        drop(view);
        let squares = Array::builder(DataType::Int32)
            .len(ROWS)
            .buffers([None, Some(squares.into_buffer())])
            .finish_on(&queue)?;
        let names = ["number", "square"].map(|name| Field::new(name, DataType::Int32, true));
        let batch = Batch::new(Schema::batch(names)?, [numbers, squares])?;
        batch.schema()?.export(&mut c_schema)?;
        batch.export_on(&queue, &mut c_array)?;
    }
    assert!(c_array.sync_event.is_null());
    println!("handed over a table on device {}, which nobody has waited for", c_array.device_id);

    // The consumer knows the structs, and finds the device that the application opened.
    let device = open_for(c_array.device_id)?;
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let schema = unsafe { Schema::import(&mut c_schema) }?;
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let batch = unsafe { Batch::import(&mut c_array, &schema) }?;
    assert_eq!(batch.as_array().device(), device.id());
    let back = batch.as_array().to_host()?;
    let squares = back.child(1)?;
    let expected =
        Array::from_values(DataType::Int32, (0..ROWS as i32).map(|row| Some(row * row)))?;
    assert!(squares.equals(&expected)?);
    println!("the squares are there");
    Ok(())
}
