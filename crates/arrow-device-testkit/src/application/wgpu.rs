//! An application's device of the crate `wgpu`, on Vulkan, and shaders in WGSL.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wgpu::{
    Backends, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferDescriptor,
    BufferUsages, ComputePassDescriptor, ComputePipelineDescriptor, Device, DeviceDescriptor,
    Instance, InstanceDescriptor, Queue, RequestAdapterOptions, ShaderModuleDescriptor,
    ShaderSource,
};

use super::Attempt;

/// A device and its queue, made by an instance of its own.
#[derive(Clone, Debug)]
pub struct Wgpu {
    /// The device.
    pub device: Device,
    /// Its queue.
    pub queue: Queue,
}

/// What a future of wgpu answers. On Vulkan it answers at once.
fn answer<T>(future: impl Future<Output = T>) -> Attempt<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Err("wgpu does not answer at once".into()),
    }
}

impl Wgpu {
    /// Makes an instance and a device with the largest limits of the first adapter that Vulkan has.
    ///
    /// # Errors
    /// That there is no adapter, in the words of wgpu.
    pub fn new() -> Attempt<Self> {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::VULKAN;
        let instance = Instance::new(descriptor);
        let adapter = answer(instance.request_adapter(&RequestAdapterOptions::default()))??;
        let required_limits = adapter.limits();
        let descriptor = DeviceDescriptor { required_limits, ..DeviceDescriptor::default() };
        let (device, queue) = answer(adapter.request_device(&descriptor))??;
        Ok(Self { device, queue })
    }

    /// A buffer with these bytes.
    pub fn buffer(&self, bytes: &[u8], usage: BufferUsages) -> Buffer {
        let size = bytes.len() as u64;
        let buffer = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size,
            usage: usage | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }

    /// Submits the entry point `main` of a shader, over buffers that it binds in this order.
    pub fn run(&self, shader: &str, bindings: &[BindingResource<'_>], groups: u32) {
        let device = &self.device;
        let source = ShaderSource::Wgsl(shader.into());
        let module = device.create_shader_module(ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let entries = (0..).zip(bindings.iter().cloned());
        let entries: Vec<BindGroupEntry<'_>> =
            entries.map(|(binding, resource)| BindGroupEntry { binding, resource }).collect();
        let group = device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(groups, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }
}
