//! An application's WebGPU: a device and a queue of its own, and kernels in WGSL.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libloading::Library;

use super::Attempt;
use crate::peers;

/// Any object of WebGPU.
pub type WgpuHandle = *mut c_void;

const STRING_LENGTH: usize = usize::MAX;
const SPONTANEOUS: u32 = 3;
const SHADER_SOURCE_WGSL: u32 = 2;
/// Dawn's feature with which a device may be used on several threads at once.
const SYNCHRONIZED: u32 = 0x0005_0004;

/// The file of wgpu-native that tests load: the one that `ARROW_DEVICE_WEBGPU_LIBRARY` names, or
/// the one that `cargo xtask test --setup` has put into `target/peers`. `None` where neither is
/// there.
pub fn library_file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ARROW_DEVICE_WEBGPU_LIBRARY") {
        return Some(named.into());
    }
    let folder = peers::folder().join("webgpu/wgpu/resources");
    let name = "libwgpu_native-release.so";
    Some(folder.join(name)).filter(|file| file.is_file())
}

/// The file of Dawn that tests load, from `ARROW_DEVICE_DAWN_LIBRARY` or from `target/peers`.
pub fn dawn_file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ARROW_DEVICE_DAWN_LIBRARY") {
        return Some(named.into());
    }
    Some(peers::folder().join("dawn/package/libwebgpu_wrapper.so")).filter(|file| file.is_file())
}

/// A device of the application's, with its queue.
#[derive(Debug)]
pub struct WebGpu {
    /// Never unloaded: its threads may still run.
    library: &'static Library,
    instance: WgpuHandle,
    device: WgpuHandle,
    queue: WgpuHandle,
    is_lost: Arc<AtomicBool>,
}

// SAFETY: wgpu-native may be called on all threads at once, and so may a device of Dawn with the
// feature that `new` asks for.
unsafe impl Send for WebGpu {}
// SAFETY: wgpu-native may be called on all threads at once, and so may a device of Dawn with the
// feature that `new` asks for. Nothing here changes.
unsafe impl Sync for WebGpu {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    data: *const c_char,
    len: usize,
}

impl Text {
    const EMPTY: Self = Self { data: ptr::null(), len: 0 };

    fn of(text: &CStr) -> Self {
        Self { data: text.as_ptr(), len: STRING_LENGTH }
    }
}

#[repr(C)]
struct CallbackInfo {
    next: WgpuHandle,
    mode: u32,
    callback: *const c_void,
    first: WgpuHandle,
    second: WgpuHandle,
}

#[repr(C)]
struct ErrorCallbackInfo {
    next: WgpuHandle,
    callback: *const c_void,
    first: WgpuHandle,
    second: WgpuHandle,
}

#[repr(C)]
struct DeviceDescriptor {
    next: WgpuHandle,
    label: Text,
    feature_count: usize,
    features: *const u32,
    limits: *const c_void,
    queue_next: WgpuHandle,
    queue_label: Text,
    lost: CallbackInfo,
    uncaptured: ErrorCallbackInfo,
}

#[repr(C)]
struct ShaderSource {
    next: WgpuHandle,
    kind: u32,
    code: Text,
}

#[repr(C)]
struct Labelled {
    next: *const c_void,
    label: Text,
}

#[repr(C)]
struct PipelineDescriptor {
    next: WgpuHandle,
    label: Text,
    layout: WgpuHandle,
    stage_next: WgpuHandle,
    module: WgpuHandle,
    entry: Text,
    constant_count: usize,
    constants: *const c_void,
}

#[repr(C)]
struct Entry {
    next: WgpuHandle,
    binding: u32,
    buffer: WgpuHandle,
    offset: u64,
    size: u64,
    sampler: WgpuHandle,
    texture: WgpuHandle,
}

#[repr(C)]
struct GroupDescriptor {
    next: WgpuHandle,
    label: Text,
    layout: WgpuHandle,
    count: usize,
    entries: *const Entry,
}

/// A callback of a request: what was asked for goes to where the first pointer points.
extern "C" fn answered(_: u32, object: WgpuHandle, _: Text, place: WgpuHandle, _: WgpuHandle) {
    // SAFETY: the place is alive until the answer is there.
    let place = unsafe { &*place.cast::<AtomicPtr<c_void>>() };
    place.store(object, Ordering::Release);
}

extern "C" fn lost(_: *const WgpuHandle, _: u32, _: Text, is_lost: WgpuHandle, _: WgpuHandle) {
    // SAFETY: the flag is kept for ever.
    unsafe { &*is_lost.cast::<AtomicBool>() }.store(true, Ordering::Release);
}

extern "C" fn failed(_: *const WgpuHandle, kind: u32, _: Text, _: WgpuHandle, _: WgpuHandle) {
    eprintln!("WebGPU reported an error of type {kind} that no scope caught");
}

impl WebGpu {
    /// Makes a device of the first adapter, with the library of [`library_file`].
    pub fn new() -> Attempt<Self> {
        let file = library_file().ok_or("no WebGPU library was found")?;
        Self::of_library(&file)
    }

    /// Makes a device of the first adapter.
    pub fn of_library(file: &Path) -> Attempt<Self> {
        // SAFETY: the file is one of wgpu-native or Dawn, whose initialisers are sound.
        let library = unsafe { Library::new(file) }?;
        let library: &'static Library = Box::leak(Box::new(library));
        let is_lost = Arc::new(AtomicBool::new(false));
        let (instance, device, queue) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut made = Self { library, instance, device, queue, is_lost };
        #[allow(clippy::multiple_unsafe_ops_per_block)]
        // SAFETY: each function has the type that it has in `webgpu.h`, and is given what the
        // header asks for.
        unsafe {
            let create: unsafe extern "C" fn(WgpuHandle) -> WgpuHandle =
                made.get(c"wgpuCreateInstance")?;
            made.instance = create(ptr::null_mut());
            let adapter: AtomicPtr<c_void> = AtomicPtr::default();
            let ask: unsafe extern "C" fn(WgpuHandle, WgpuHandle, CallbackInfo) -> u64 =
                made.get(c"wgpuInstanceRequestAdapter")?;
            ask(made.instance, ptr::null_mut(), answer_to(&adapter));
            let adapter = made.wait_for(&adapter).ok_or("there is no adapter")?;
            let has: unsafe extern "C" fn(WgpuHandle, u32) -> u32 =
                made.get(c"wgpuAdapterHasFeature")?;
            let features = [SYNCHRONIZED];
            let descriptor = DeviceDescriptor {
                next: ptr::null_mut(),
                label: Text::EMPTY,
                feature_count: usize::from(has(adapter, SYNCHRONIZED) & 0xff != 0),
                features: features.as_ptr(),
                limits: ptr::null(),
                queue_next: ptr::null_mut(),
                queue_label: Text::EMPTY,
                lost: CallbackInfo {
                    next: ptr::null_mut(),
                    mode: SPONTANEOUS,
                    callback: lost as *const c_void,
                    first: Arc::into_raw(made.is_lost.clone()).cast_mut().cast(),
                    second: ptr::null_mut(),
                },
                uncaptured: ErrorCallbackInfo {
                    next: ptr::null_mut(),
                    callback: failed as *const c_void,
                    first: ptr::null_mut(),
                    second: ptr::null_mut(),
                },
            };
            let device: AtomicPtr<c_void> = AtomicPtr::default();
            let ask: unsafe extern "C" fn(
                WgpuHandle,
                *const DeviceDescriptor,
                CallbackInfo,
            ) -> u64 = made.get(c"wgpuAdapterRequestDevice")?;
            ask(adapter, &descriptor, answer_to(&device));
            made.device = made.wait_for(&device).ok_or("there is no device")?;
            made.release(c"wgpuAdapterRelease", adapter)?;
            let queue: unsafe extern "C" fn(WgpuHandle) -> WgpuHandle =
                made.get(c"wgpuDeviceGetQueue")?;
            made.queue = queue(made.device);
        }
        Ok(made)
    }

    /// The `WGPUDevice`.
    pub fn device(&self) -> NonNull<c_void> {
        NonNull::new(self.device).unwrap_or(NonNull::dangling())
    }

    /// The `WGPUQueue`.
    pub fn queue(&self) -> NonNull<c_void> {
        NonNull::new(self.queue).unwrap_or(NonNull::dangling())
    }

    /// The flag that the callback of the device's loss sets.
    pub fn is_lost(&self) -> Arc<AtomicBool> {
        self.is_lost.clone()
    }

    /// The address of a function of the library.
    pub fn find(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the address is only looked at.
        let found = unsafe { self.library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        found.ok().and_then(|address| NonNull::new(*address))
    }

    /// # Safety
    /// `T` is the type of the function of that name.
    unsafe fn get<T: Copy>(&self, name: &CStr) -> Attempt<T> {
        // SAFETY: the caller promises the type.
        Ok(*unsafe { self.library.get::<T>(name.to_bytes_with_nul()) }?)
    }

    /// # Safety
    /// The function of that name takes a handle, which is this one.
    unsafe fn release(&self, name: &CStr, handle: WgpuHandle) -> Attempt<()> {
        // SAFETY: the caller promises the type.
        let release: unsafe extern "C" fn(WgpuHandle) = unsafe { self.get(name) }?;
        // SAFETY: the caller promises that the function takes the handle.
        unsafe { release(handle) };
        Ok(())
    }

    /// Lets the library call back.
    pub fn poll(&self) {
        // SAFETY: the function has this type.
        let poll =
            unsafe { self.get::<unsafe extern "C" fn(WgpuHandle)>(c"wgpuInstanceProcessEvents") };
        if let Ok(poll) = poll {
            // SAFETY: the instance is alive.
            unsafe { poll(self.instance) };
        }
    }

    fn wait_for(&self, place: &AtomicPtr<c_void>) -> Option<WgpuHandle> {
        for _ in 0..10_000 {
            let found = place.load(Ordering::Acquire);
            if !found.is_null() {
                return Some(found);
            }
            self.poll();
            std::thread::yield_now();
        }
        None
    }

    /// Destroys the device: it is lost afterwards.
    pub fn destroy(&self) -> Attempt<()> {
        // SAFETY: the function takes a device.
        unsafe { self.release(c"wgpuDeviceDestroy", self.device) }
    }

    /// Makes a buffer of this size and these usages. A reference to it is never released.
    pub fn buffer(&self, size: u64, usage: u64) -> Attempt<NonNull<c_void>> {
        #[repr(C)]
        struct Descriptor {
            next: WgpuHandle,
            label: Text,
            usage: u64,
            size: u64,
            mapped: u32,
        }
        let (next, label) = (ptr::null_mut(), Text::EMPTY);
        let descriptor = Descriptor { next, label, usage, size, mapped: 0 };
        // SAFETY: the function has this type.
        let create: unsafe extern "C" fn(WgpuHandle, *const Descriptor) -> WgpuHandle =
            unsafe { self.get(c"wgpuDeviceCreateBuffer") }?;
        // SAFETY: the device is alive, and so is the descriptor during the call.
        let made = unsafe { create(self.device, &descriptor) };
        NonNull::new(made).ok_or_else(|| "no buffer was made".into())
    }

    /// Submits a kernel: `source` is WGSL with an entry point `main` and the storage buffers as
    /// bindings 0, 1, ... of group 0. Does not wait.
    pub fn run(&self, source: &CStr, buffers: &[WgpuHandle], groups: u32) -> Attempt<()> {
        let source = ShaderSource {
            next: ptr::null_mut(),
            kind: SHADER_SOURCE_WGSL,
            code: Text::of(source),
        };
        #[allow(clippy::multiple_unsafe_ops_per_block)]
        // SAFETY: each function has the type that it has in `webgpu.h`, and is given what the
        // header asks for.
        unsafe {
            let module: unsafe extern "C" fn(WgpuHandle, *const Labelled) -> WgpuHandle =
                self.get(c"wgpuDeviceCreateShaderModule")?;
            let labelled = Labelled { next: (&raw const source).cast(), label: Text::EMPTY };
            let module = module(self.device, &labelled);
            let pipeline: unsafe extern "C" fn(
                WgpuHandle,
                *const PipelineDescriptor,
            ) -> WgpuHandle = self.get(c"wgpuDeviceCreateComputePipeline")?;
            let descriptor = PipelineDescriptor {
                next: ptr::null_mut(),
                label: Text::EMPTY,
                layout: ptr::null_mut(),
                stage_next: ptr::null_mut(),
                module,
                entry: Text::of(c"main"),
                constant_count: 0,
                constants: ptr::null(),
            };
            let pipeline = pipeline(self.device, &descriptor);
            let layout: unsafe extern "C" fn(WgpuHandle, u32) -> WgpuHandle =
                self.get(c"wgpuComputePipelineGetBindGroupLayout")?;
            let layout = layout(pipeline, 0);
            let size: unsafe extern "C" fn(WgpuHandle) -> u64 = self.get(c"wgpuBufferGetSize")?;
            let entry = |(binding, buffer): (usize, &WgpuHandle)| Entry {
                next: ptr::null_mut(),
                binding: binding as u32,
                buffer: *buffer,
                offset: 0,
                size: size(*buffer),
                sampler: ptr::null_mut(),
                texture: ptr::null_mut(),
            };
            let entries: Vec<Entry> = buffers.iter().enumerate().map(entry).collect();
            let group: unsafe extern "C" fn(WgpuHandle, *const GroupDescriptor) -> WgpuHandle =
                self.get(c"wgpuDeviceCreateBindGroup")?;
            let descriptor = GroupDescriptor {
                next: ptr::null_mut(),
                label: Text::EMPTY,
                layout,
                count: entries.len(),
                entries: entries.as_ptr(),
            };
            let group = group(self.device, &descriptor);
            let encoder: unsafe extern "C" fn(WgpuHandle, WgpuHandle) -> WgpuHandle =
                self.get(c"wgpuDeviceCreateCommandEncoder")?;
            let encoder = encoder(self.device, ptr::null_mut());
            let begin: unsafe extern "C" fn(WgpuHandle, WgpuHandle) -> WgpuHandle =
                self.get(c"wgpuCommandEncoderBeginComputePass")?;
            let pass = begin(encoder, ptr::null_mut());
            let set: unsafe extern "C" fn(WgpuHandle, WgpuHandle) =
                self.get(c"wgpuComputePassEncoderSetPipeline")?;
            set(pass, pipeline);
            let bind: unsafe extern "C" fn(WgpuHandle, u32, WgpuHandle, usize, *const u32) =
                self.get(c"wgpuComputePassEncoderSetBindGroup")?;
            bind(pass, 0, group, 0, ptr::null());
            let dispatch: unsafe extern "C" fn(WgpuHandle, u32, u32, u32) =
                self.get(c"wgpuComputePassEncoderDispatchWorkgroups")?;
            dispatch(pass, groups, 1, 1);
            self.release(c"wgpuComputePassEncoderEnd", pass)?;
            self.release(c"wgpuComputePassEncoderRelease", pass)?;
            let finish: unsafe extern "C" fn(WgpuHandle, WgpuHandle) -> WgpuHandle =
                self.get(c"wgpuCommandEncoderFinish")?;
            let commands = finish(encoder, ptr::null_mut());
            let submit: unsafe extern "C" fn(WgpuHandle, usize, *const WgpuHandle) =
                self.get(c"wgpuQueueSubmit")?;
            submit(self.queue, 1, &commands);
            self.release(c"wgpuCommandBufferRelease", commands)?;
            self.release(c"wgpuCommandEncoderRelease", encoder)?;
            self.release(c"wgpuBindGroupRelease", group)?;
            self.release(c"wgpuBindGroupLayoutRelease", layout)?;
            self.release(c"wgpuComputePipelineRelease", pipeline)?;
            self.release(c"wgpuShaderModuleRelease", module)?;
        }
        Ok(())
    }
}

fn answer_to(place: &AtomicPtr<c_void>) -> CallbackInfo {
    CallbackInfo {
        next: ptr::null_mut(),
        mode: SPONTANEOUS,
        callback: answered as *const c_void,
        first: (&raw const *place).cast_mut().cast(),
        second: ptr::null_mut(),
    }
}

impl Drop for WebGpu {
    fn drop(&mut self) {
        let ends = [(c"wgpuQueueRelease", self.queue), (c"wgpuDeviceRelease", self.device)];
        for (name, handle) in ends.into_iter().filter(|(_, handle)| !handle.is_null()) {
            // SAFETY: the functions take these handles, whose references are this owner's.
            let _ = unsafe { self.release(name, handle) };
        }
    }
}
