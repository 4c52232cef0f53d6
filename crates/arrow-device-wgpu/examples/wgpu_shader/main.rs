//! A shader of the application over a column, on the application's own device of wgpu.
//!
//! The application has a `wgpu::Device` and opens it for the library. A column from the host is
//! copied there, a shader squares it into a buffer of the application's, and that buffer becomes a
//! column where it is. The table of both is handed over by the C structs. Nobody waits in between:
//! the copy, the shader and the consumer's copy are in the order of the one queue.
//!
//! `cargo run -p arrow-device-wgpu --example wgpu_shader`

use std::error::Error;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, DataType, Field, Schema};
use arrow_device_testkit::application::wgpu::Wgpu;
use arrow_device_wgpu::{adopt, bound, device_of, open_from};

const ROWS: usize = 1000;
const LEN: u64 = (ROWS * size_of::<i32>()) as u64;
const GROUP: usize = 64;
const SQUARES: &str = "
@group(0) @binding(0) var<storage, read> numbers: array<i32>;
@group(0) @binding(1) var<storage, read_write> squares: array<i32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < 1000u) {
        squares[at.x] = numbers[at.x] * numbers[at.x];
    }
}";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // What an application has anyway: an instance, a device with a queue, and its pipelines.
    let application = match Wgpu::new() {
        Ok(application) => application,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let device = open_from(&application.device, &application.queue)?;
    println!("opened {device:?}");

    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    {
        let queue = device.open_queue()?;
        let numbers = Array::from_values(DataType::Int32, (0..ROWS as i32).map(Some))?;
        let numbers = numbers.copy_to(&queue)?;
        let squares = application.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("squares"),
            size: LEN,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let view = numbers.on(&queue)?;
        // SAFETY: the shader only reads, and is submitted before the view is dropped.
        let column = unsafe { bound(&device, view.buffer(1).location().spot(), LEN) }?;
        let bindings = [column.binding()?, squares.as_entire_binding()];
        application.run(SQUARES, &bindings, ROWS.div_ceil(GROUP) as u32);
        drop(view);

        // SAFETY: the buffer is the device's, and the shader was the last to write to it.
        let squares = unsafe { adopt(&device, &squares, 0, LEN) }?;
        let squares = Array::builder(DataType::Int32).len(ROWS).buffers([None, Some(squares)]);
        let squares = squares.finish_on(&queue)?;
        let names = ["number", "square"].map(|name| Field::new(name, DataType::Int32, true));
        let batch = Batch::new(Schema::batch(names)?, [numbers, squares])?;
        batch.schema()?.export(&mut c_schema)?;
        batch.export_on(&queue, &mut c_array)?;
    }
    assert!(c_array.sync_event.is_null());
    println!("handed over a table on device {:#x}, which nobody has waited for", c_array.device_id);

    // The consumer knows the structs, and finds the device that the application opened.
    let device = device_of(c_array.device_id)?;
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let schema = unsafe { Schema::import(&mut c_schema) }?;
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let batch = unsafe { Batch::import(&mut c_array, &schema) }?;
    assert_eq!(batch.as_array().device(), device.id());
    let squares = batch.as_array().to_host()?.child(1)?;
    let squared = (0..ROWS as i32).map(|row| Some(row * row));
    assert!(squares.equals(&Array::from_values(DataType::Int32, squared)?)?);
    println!("the squares are there");
    Ok(())
}
