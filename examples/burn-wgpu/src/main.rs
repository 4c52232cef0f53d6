//! Columns and tensors of `burn` in the memory of one GPU, by the crate `wgpu`.
//!
//! The application makes one `wgpu::Device` and gives its handles to both: to `burn`, which runs
//! its kernels on the device's queue, and to this library. So nothing passes through the host, and
//! nobody waits: all work is in the order of the one queue.
//!
//! * There: one copy on the device. `burn` computes in memory of its own pools, and has no call
//!   that takes a buffer of others. The column is copied into a tensor that `burn` has allocated.
//! * Back: no copy. The tensor's part of its pool's buffer becomes a column where it is, and the
//!   column keeps that part until it is released.
//!
//! `burn` collects kernels before it submits them, those of each thread apart. Whoever uses the
//! memory of a tensor has `burn` submit first what was collected by the thread that allocated the
//! memory. A kernel may also write in place to memory that another thread allocated, and nothing
//! tells from the tensor which thread launched the kernel. So a thread that gives a tensor to
//! another thread has `burn` submit the thread's kernels before (`submitted`).
//!
//! `cargo run --manifest-path examples/burn-wgpu/Cargo.toml`

use std::error::Error;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::types::Float32;
use arrow_device::{Array, DataType, Device, Queue, Schema};
use arrow_device_wgpu::{adopt_with, bound, open_from};
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::wgpu::{AutoCompiler, WgpuResource, WgpuServer};
use burn_cubecl::tensor::CubeTensor;
use burn_tensor::wgpu::WgpuSetup;
use burn_tensor::{Device as BurnDevice, Tensor};

/// A result, or what went wrong.
type Attempt<T> = Result<T, Box<dyn Error>>;

fn main() -> Attempt<()> {
    let Some(application) = Application::new()? else {
        println!("skipped: wgpu finds no device");
        return Ok(());
    };
    let queue = &application.queue;
    let celsius = Array::of::<Float32>([Some(12.5), Some(31.0), Some(-40.0)])?.copy_to(queue)?;
    println!("from {celsius:?}");

    // There, through two kernels of burn on another thread, and back.
    let input = application.to_burn(&celsius)?;
    let compute = || submitted(input * 2.0 + 30.0).map_err(|error| error.to_string());
    let output = std::thread::scope(|scope| scope.spawn(compute).join());
    let output = output.map_err(|_| "the thread panicked")??;
    let roughly_fahrenheit = application.to_column(output)?;
    println!("back {roughly_fahrenheit:?}");

    // The result is a column like any other, for whoever takes the C structs.
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    roughly_fahrenheit.schema()?.export(&mut c_schema)?;
    roughly_fahrenheit.export_on(queue, &mut c_array)?;
    drop(roughly_fahrenheit);
    // SAFETY: the struct was filled by a producer that keeps to the interface.
    let schema = unsafe { Schema::import(&mut c_schema) }?;
    // SAFETY: the struct was filled by a producer that keeps to the interface.
    let taken = unsafe { Array::import(&mut c_array, &schema) }?;
    let expected = Array::of::<Float32>([Some(55.0), Some(92.0), Some(-50.0)])?;
    assert!(taken.to_host()?.equals(&expected)?);
    println!("the values are right");
    Ok(())
}

/// What an application has: a device, as both know it.
struct Application {
    handles: WgpuSetup,
    burn: BurnDevice,
    device: Device,
    queue: Queue,
}

impl Application {
    /// Makes a device. `None` where there is none.
    fn new() -> Attempt<Option<Self>> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        let instance = wgpu::Instance::new(descriptor);
        let options = wgpu::RequestAdapterOptions::default();
        let Ok(adapter) = answer(instance.request_adapter(&options))? else { return Ok(None) };
        let descriptor = wgpu::DeviceDescriptor {
            required_features: adapter.features() & !wgpu::Features::all_experimental_mask(),
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = answer(adapter.request_device(&descriptor))??;
        let backend = adapter.get_info().backend;
        let handles = WgpuSetup { instance, adapter, device, queue, backend };
        let burn = BurnDevice::wgpu_options().setup(handles.clone()).init()?;
        let device = open_from(&handles.device, &handles.queue)?;
        let queue = device.open_queue()?;
        Ok(Some(Self { handles, burn, device, queue }))
    }

    /// A tensor with the values of a column without nulls: one copy on the device.
    fn to_burn(&self, column: &Array) -> Attempt<Tensor<1>> {
        if *column.data_type() != DataType::Float32 || column.null_count() != Some(0) {
            return Err("a column of float32 without nulls is asked for".into());
        }
        let len = 4 * u64::try_from(column.len())?;
        let tensor = Tensor::<1>::empty([column.len()], &self.burn);
        let tensor = primitive(tensor)?;
        // What burn has not submitted yet may still use the memory that the tensor got.
        let (target, _memory) = memory_of(&tensor)?;

        let view = column.on(&self.queue)?;
        let mut place = view.buffer(1).location().spot();
        place.offset += 4 * u64::try_from(column.offset())?;
        // SAFETY: the copy only reads, and is submitted before the view is dropped.
        let source = unsafe { bound(&self.device, place, len) }?;
        let mut encoder = self.handles.device.create_command_encoder(&Default::default());
        let (from, to) = ((&source.buffer, source.offset), (&target.buffer, target.offset));
        encoder.copy_buffer_to_buffer(from.0, from.1, to.0, to.1, len);
        self.handles.queue.submit([encoder.finish()]);
        drop(view);
        Ok(Tensor::from_primitive::<CubeBackend>(tensor))
    }

    /// The memory of a tensor as a column, without a copy.
    fn to_column(&self, tensor: Tensor<1>) -> Attempt<Array> {
        let tensor = primitive(tensor)?;
        if !tensor.is_contiguous() {
            return Err("the elements do not lie one behind the other".into());
        }
        let rows = tensor.meta.num_elements();
        let (place, memory) = memory_of(&tensor)?;
        let (buffer, offset, len) = (&place.buffer, place.offset, 4 * u64::try_from(rows)?);
        let owner = (tensor, memory);
        // SAFETY: the buffer is of this device, is not mapped, and stays as long as its pool. What
        // writes the bytes was submitted by `memory_of`. burn writes in place only to memory that
        // one tensor has and no other: the owner has one, so nobody writes while it is there.
        let data = unsafe { adopt_with(&self.device, buffer, offset, len, owner) }?;
        let column = Array::builder(DataType::Float32).len(rows).buffers([None, Some(data)]);
        Ok(column.finish_on(&self.queue)?)
    }
}

/// A tensor that can be given to another thread: all that this thread computed is submitted.
fn submitted(tensor: Tensor<1>) -> Attempt<Tensor<1>> {
    let tensor = primitive(tensor)?;
    tensor.client.flush().map_err(|error| format!("{error:?}"))?;
    Ok(Tensor::from_primitive::<CubeBackend>(tensor))
}

/// What a tensor is to its backend.
fn primitive(tensor: Tensor<1>) -> Attempt<CubeTensor> {
    tensor.try_into_primitive::<CubeBackend>().map_err(|error| format!("{error:?}").into())
}

/// Where the memory of a tensor is, once burn has submitted the work that fills it, and what keeps
/// the memory from being given to another tensor.
fn memory_of(tensor: &CubeTensor) -> Attempt<(WgpuResource, impl Send + Sync + use<>)> {
    let found = tensor.client.get_resource::<WgpuServer<AutoCompiler>>(tensor.handle.clone());
    let found = found.map_err(|error| format!("{error:?}"))?;
    let flushed = tensor.handle.stream.executes(|| tensor.client.flush());
    flushed.map_err(|error| format!("{error:?}"))?;
    Ok((found.resource().clone(), found))
}

/// What a future of wgpu answers. On Vulkan it answers at once.
fn answer<T>(future: impl Future<Output = T>) -> Attempt<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Err("wgpu does not answer at once".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }

    fn values(column: &Array) -> Vec<f32> {
        let host = column.to_host().unwrap();
        let tensor = host.to_tensor(&arrow_device::dlpack::Conversion::new()).unwrap();
        tensor.host().unwrap().to_vec::<f32>().unwrap()
    }

    fn column(application: &Application, rows: usize, first: f32) -> Array {
        let numbers = (0..rows).map(|row| Some(first + row as f32));
        Array::of::<Float32>(numbers).unwrap().copy_to(&application.queue).unwrap()
    }

    /// An application; `None` where wgpu finds no device, which is a failure where the tests have
    /// to find one.
    fn application() -> Option<Application> {
        let application = Application::new().unwrap();
        if application.is_none() {
            let required = std::env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
            let is_required = required.split(',').any(|name| matches!(name, "vulkan" | "all"));
            assert!(!is_required, "vulkan is required: wgpu finds no device");
            println!("skipped: wgpu finds no device");
        }
        application
    }

    /// A tensor's memory goes back to its pool with the column, and not before.
    #[test]
    fn a_column_keeps_the_memory_of_its_tensor_while_burn_goes_on() {
        let Some(application) = application() else { return };
        let mut kept = Vec::new();
        for round in 0..20 {
            let first = (100 * round) as f32;
            let there = application.to_burn(&column(&application, 1000, first)).unwrap();
            kept.push((first, application.to_column(there + 1.0).unwrap()));
            // Memory that is free again is written to.
            let other = Tensor::<1>::zeros([1000], &application.burn) + first;
            drop(other.exp());
        }
        for (first, column) in &kept {
            let expected: Vec<f32> = (0..1000).map(|row| first + row as f32 + 1.0).collect();
            assert!(values(column) == expected, "{first}");
        }
    }

    #[test]
    fn a_slice_of_a_column_arrives_from_its_first_row_on() {
        let Some(application) = application() else { return };
        let whole = column(&application, 100, 0.0);
        let there = application.to_burn(&whole.slice(10, 3).unwrap()).unwrap();
        assert_eq!(there.into_data().as_slice::<f32>().unwrap(), [10.0, 11.0, 12.0]);
    }

    /// The kernel writes in place, and the memory is that of the first thread.
    #[test]
    fn a_tensor_that_another_thread_submitted_is_a_column_with_its_values() {
        let Some(application) = application() else { return };
        let there = application.to_burn(&column(&application, 1000, 7.0)).unwrap();
        let compute = || submitted(there * 3.0).unwrap();
        let made = std::thread::scope(|scope| scope.spawn(compute).join()).unwrap();
        let expected: Vec<f32> = (0..1000).map(|row| 3.0 * (row as f32 + 7.0)).collect();
        assert!(values(&application.to_column(made).unwrap()) == expected);
    }

    /// Memory of the other thread: what that thread has collected is submitted by `memory_of`.
    #[test]
    fn a_tensor_in_memory_of_another_thread_is_a_column_with_its_values() {
        let Some(application) = application() else { return };
        let there = application.to_burn(&column(&application, 1000, 7.0)).unwrap();
        let compute = || (there.clone() * 3.0, there);
        let (made, kept) = std::thread::scope(|scope| scope.spawn(compute).join()).unwrap();
        let expected: Vec<f32> = (0..1000).map(|row| 3.0 * (row as f32 + 7.0)).collect();
        assert!(values(&application.to_column(made).unwrap()) == expected);
        drop(kept);
    }

    #[test]
    fn a_column_that_is_copied_keeps_its_values_beside_what_burn_makes_of_them() {
        let Some(application) = application() else { return };
        let column = column(&application, 1000, 0.0);
        let there = application.to_burn(&column).unwrap();
        let scaled = application.to_column(there.mul_scalar(-1.0)).unwrap();
        let expected: Vec<f32> = (0..1000).map(|row| row as f32).collect();
        assert!(values(&column) == expected);
        assert!(values(&scaled) == expected.iter().map(|value| -value).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_column_of_float32_without_nulls_is_refused() {
        let Some(application) = application() else { return };
        let with_null = Array::of::<Float32>([Some(1.0), None]).unwrap();
        let with_null = with_null.copy_to(&application.queue).unwrap();
        assert!(application.to_burn(&with_null).is_err());
        let numbers = Array::from_values(DataType::Int32, [Some(1)]).unwrap();
        assert!(application.to_burn(&numbers.copy_to(&application.queue).unwrap()).is_err());
    }
}
