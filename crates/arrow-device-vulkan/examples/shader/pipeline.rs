//! A compute shader, ready to be submitted, and everything that it needs meanwhile.

use std::sync::Arc;

use ash::vk::{self, Handle};

use super::spirv;
use arrow_device_testkit::application::Attempt;
use arrow_device_testkit::application::vulkan::Vulkan;

/// The shader over two buffers. Waits for its end when it is dropped.
pub(crate) struct Squares {
    vulkan: Arc<Vulkan>,
    shader: vk::ShaderModule,
    bindings: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    descriptors: vk::DescriptorPool,
    commands: vk::CommandPool,
    recorded: vk::CommandBuffer,
}

impl Squares {
    /// Records it for so many rows.
    pub(crate) fn new(vulkan: &Arc<Vulkan>, buffers: [u64; 2], rows: u32) -> Attempt<Self> {
        let device = &vulkan.device;
        let words = spirv::squares();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the words are a module.
        let shader = unsafe { device.create_shader_module(&info, None) }?;

        let binding = |number| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let both = [binding(0), binding(1)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&both);
        // SAFETY: as described.
        let bindings = unsafe { device.create_descriptor_set_layout(&info, None) }?;
        let layouts = [bindings];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: the layout of the set is alive.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // SAFETY: shader and layout fit together.
        let made =
            unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = *made.map_err(|(_, code)| code)?.first().ok_or("no pipeline")?;

        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(2)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: as described.
        let descriptors = unsafe { device.create_descriptor_pool(&info, None) }?;
        let vulkan = vulkan.clone();
        let (commands, recorded) = (vk::CommandPool::null(), vk::CommandBuffer::null());
        let mut made =
            Self { vulkan, shader, bindings, layout, pipeline, descriptors, commands, recorded };
        (made.commands, made.recorded) = made.record(buffers, rows)?;
        Ok(made)
    }

    fn record(
        &self,
        buffers: [u64; 2],
        rows: u32,
    ) -> Attempt<(vk::CommandPool, vk::CommandBuffer)> {
        let (vulkan, device) = (&self.vulkan, &self.vulkan.device);
        let layouts = [self.bindings];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.descriptors)
            .set_layouts(&layouts);
        // SAFETY: the pool has room for one such set.
        let sets = unsafe { device.allocate_descriptor_sets(&info) }?;
        let set = *sets.first().ok_or("no set")?;
        for (number, buffer) in buffers.into_iter().enumerate() {
            let whole = [vk::DescriptorBufferInfo::default()
                .buffer(vk::Buffer::from_raw(buffer))
                .range(vk::WHOLE_SIZE)];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(number as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&whole);
            // SAFETY: the caller's buffers stay until the shader has run.
            unsafe { device.update_descriptor_sets(&[write], &[]) };
        }
        let point = vk::PipelineBindPoint::COMPUTE;
        vulkan.record(&|commands| {
            // SAFETY: the commands are being recorded.
            unsafe { device.cmd_bind_pipeline(commands, point, self.pipeline) };
            // SAFETY: the commands are being recorded; the set has the layout of the pipeline.
            unsafe {
                device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[set], &[]);
            }
            // SAFETY: the commands are being recorded; the buffers have room for all rows.
            unsafe { device.cmd_dispatch(commands, rows.div_ceil(spirv::LOCAL_SIZE), 1, 1) };
        })
    }

    /// Submits it and waits for nothing.
    pub(crate) fn submit(&self) -> Attempt<()> {
        self.vulkan.submit(&[self.recorded])
    }
}

impl Drop for Squares {
    fn drop(&mut self) {
        let _ = self.vulkan.finish();
        let device = &self.vulkan.device;
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_command_pool(self.commands, None) };
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_descriptor_pool(self.descriptors, None) };
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_pipeline(self.pipeline, None) };
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_descriptor_set_layout(self.bindings, None) };
        // SAFETY: nothing uses it any more.
        unsafe { device.destroy_shader_module(self.shader, None) };
    }
}
