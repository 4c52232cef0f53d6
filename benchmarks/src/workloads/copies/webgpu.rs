//! WebGPU by hand, on the same `WGPUDevice` of wgpu-native: filled through a buffer that the host
//! maps, in the ways that there are, and read back through another.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{OsString, c_void};
use std::ptr;
use std::rc::Rc;

use arrow_device::{Batch, Device};
use libloading::Library;

use super::by_hand::Sources;
use crate::case::{Case, Peer, WorkloadKey};

type WebGpuHandle = *mut c_void;

const MAP_READ: u64 = 1;
const MAP_WRITE: u64 = 2;
const COPY_SRC: u64 = 4;
const COPY_DST: u64 = 8;
const STORAGE: u64 = 0x80;
/// Callbacks may come from within any call.
const SPONTANEOUS: u32 = 3;
/// Columns begin where a kernel could bind them.
const ALIGNMENT: usize = 256;

/// `WGPUBufferDescriptor`, with an empty label.
#[repr(C)]
struct Descriptor {
    next: WebGpuHandle,
    label: [usize; 2],
    usage: u64,
    size: u64,
    mapped: u32,
}

/// `WGPUStringView`: an address and a length.
#[repr(C)]
struct Text {
    address: usize,
    len: usize,
}

/// `WGPUBufferMapCallbackInfo`.
#[repr(C)]
struct Told {
    next: WebGpuHandle,
    mode: u32,
    callback: extern "C" fn(u32, Text, WebGpuHandle, WebGpuHandle),
    users: [WebGpuHandle; 2],
}

extern "C" fn ignored(_: u32, _: Text, _: WebGpuHandle, _: WebGpuHandle) {}

/// What is called of `webgpu.h` and `wgpu.h`.
struct WebGpuApi {
    create_buffer: unsafe extern "C" fn(WebGpuHandle, *const Descriptor) -> WebGpuHandle,
    map: unsafe extern "C" fn(WebGpuHandle, u64, usize, usize, Told) -> u64,
    mapped: unsafe extern "C" fn(WebGpuHandle, usize, usize) -> *mut u8,
    shown: unsafe extern "C" fn(WebGpuHandle, usize, usize) -> *const u8,
    unmap: unsafe extern "C" fn(WebGpuHandle),
    write: unsafe extern "C" fn(WebGpuHandle, WebGpuHandle, u64, *const u8, usize),
    encoder: unsafe extern "C" fn(WebGpuHandle, *const c_void) -> WebGpuHandle,
    copy: unsafe extern "C" fn(WebGpuHandle, WebGpuHandle, u64, WebGpuHandle, u64, u64),
    finish: unsafe extern "C" fn(WebGpuHandle, *const c_void) -> WebGpuHandle,
    release_encoder: unsafe extern "C" fn(WebGpuHandle),
    release_commands: unsafe extern "C" fn(WebGpuHandle),
    submit: unsafe extern "C" fn(WebGpuHandle, usize, *const WebGpuHandle),
    poll: unsafe extern "C" fn(WebGpuHandle, u32, *const c_void) -> u32,
}

struct WebGpuHand {
    api: WebGpuApi,
    /// Keeps the handles `device` and `queue` valid.
    _device: Device,
    device: WebGpuHandle,
    queue: WebGpuHandle,
    sources: Sources,
    places: Vec<usize>,
    end: usize,
    /// The buffer into which the host gathers; it is mapped between the turns.
    up: WebGpuHandle,
    is_up_mapped: Cell<bool>,
    down: WebGpuHandle,
    /// One buffer for all columns.
    whole: WebGpuHandle,
    /// A buffer for each, as an array needs them.
    parts: Vec<WebGpuHandle>,
    back: RefCell<Vec<u8>>,
}

/// The way in which columns come to the device.
#[derive(Clone, Copy)]
enum WebGpuWay {
    WriteEach,
    Mapped { parts: bool },
    Back { parts: bool },
}

/// All ways to fill memory, over one batch.
pub(super) fn fills(
    what: WorkloadKey,
    device: &Device,
    batch: impl Fn() -> Batch + 'static,
) -> Vec<Case> {
    let ways = [
        ("write each, one submit", WebGpuWay::WriteEach),
        ("mapped gather", WebGpuWay::Mapped { parts: false }),
        ("mapped, handles", WebGpuWay::Mapped { parts: true }),
    ];
    by_hand(what, device, batch, &ways)
}

/// All ways back to the host.
pub(super) fn reads(
    what: WorkloadKey,
    device: &Device,
    batch: impl Fn() -> Batch + 'static,
) -> Vec<Case> {
    let ways = [
        ("mapped copy", WebGpuWay::Back { parts: false }),
        ("mapped copies, handles", WebGpuWay::Back { parts: true }),
    ];
    by_hand(what, device, batch, &ways)
}

fn by_hand(
    what: WorkloadKey,
    device: &Device,
    batch: impl Fn() -> Batch + 'static,
    ways: &[(&'static str, WebGpuWay)],
) -> Vec<Case> {
    let made: Rc<OnceCell<WebGpuHand>> = Rc::default();
    let batch = Rc::new(batch);
    let case = |(name, how): &(&'static str, WebGpuWay)| {
        let (made, batch, device, how) = (made.clone(), batch.clone(), device.clone(), *how);
        let hand =
            move || made.get_or_init(|| WebGpuHand::new(&device, &batch())) as *const WebGpuHand;
        let timed = move |hand: *const WebGpuHand| {
            // SAFETY: the cell keeps it as long as the case.
            unsafe { &*hand }.go(how);
            hand
        };
        // SAFETY: the cell keeps it as long as the case.
        let after = |hand: *const WebGpuHand| unsafe { &*hand }.make_ready();
        Case::step(what, Peer::ByHand(name), hand, timed, after)
    };
    ways.iter().map(case).collect()
}

/// The file that this library has loaded.
fn library() -> OsString {
    let named = std::env::var_os("ARROW_DEVICE_WEBGPU_LIBRARY");
    named.unwrap_or_else(|| "libwgpu_native.so".into())
}

impl WebGpuHand {
    fn new(device: &Device, batch: &Batch) -> Self {
        // SAFETY: the library is loaded already.
        let library: &Library = Box::leak(Box::new(unsafe { Library::new(library()) }.unwrap()));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the header of wgpu-native.
                *unsafe { library.get($name) }.unwrap()
            };
        }
        let api = WebGpuApi {
            create_buffer: function!(b"wgpuDeviceCreateBuffer"),
            map: function!(b"wgpuBufferMapAsync"),
            mapped: function!(b"wgpuBufferGetMappedRange"),
            shown: function!(b"wgpuBufferGetConstMappedRange"),
            unmap: function!(b"wgpuBufferUnmap"),
            write: function!(b"wgpuQueueWriteBuffer"),
            encoder: function!(b"wgpuDeviceCreateCommandEncoder"),
            copy: function!(b"wgpuCommandEncoderCopyBufferToBuffer"),
            finish: function!(b"wgpuCommandEncoderFinish"),
            release_encoder: function!(b"wgpuCommandEncoderRelease"),
            release_commands: function!(b"wgpuCommandBufferRelease"),
            submit: function!(b"wgpuQueueSubmit"),
            poll: function!(b"wgpuDevicePoll"),
        };
        let (handle, queue) = arrow_device_webgpu::handles_of(device).unwrap();
        let (handle, queue) = (handle.as_ptr(), queue.as_ptr());
        let sources = Sources::of(batch);
        let (places, end) = sources.places(ALIGNMENT);
        let make = |usage, size: usize| {
            let (next, label, size) = (ptr::null_mut(), [0; 2], size as u64);
            let descriptor = Descriptor { next, label, usage, size, mapped: 0 };
            // SAFETY: the device is alive, and the descriptor lives during the call.
            let made = unsafe { (api.create_buffer)(handle, &descriptor) };
            assert!(!made.is_null());
            made
        };
        let memory = STORAGE | COPY_SRC | COPY_DST;
        let parts = sources.buffers.iter().map(|(_, len)| make(memory, *len)).collect();
        let hand = Self {
            up: make(MAP_WRITE | COPY_SRC, end),
            is_up_mapped: Cell::new(true),
            down: make(MAP_READ | COPY_DST, end),
            whole: make(memory, end),
            parts,
            api,
            _device: device.clone(),
            device: handle,
            queue,
            sources,
            places,
            end,
            back: RefCell::new(vec![0; end]),
        };
        hand.map(hand.up, MAP_WRITE);
        hand
    }

    /// Waits for all that was submitted, and for mappings.
    fn wait(&self) {
        // SAFETY: the device is alive.
        unsafe { (self.api.poll)(self.device, 1, ptr::null()) };
    }

    fn map(&self, buffer: WebGpuHandle, mode: u64) {
        let told = Told {
            next: ptr::null_mut(),
            mode: SPONTANEOUS,
            callback: ignored,
            users: [ptr::null_mut(); 2],
        };
        // SAFETY: the buffer is alive and not mapped, and nothing uses it.
        unsafe { (self.api.map)(buffer, mode, 0, self.end, told) };
        self.wait();
    }

    /// Submits copies, or nothing but what was written before.
    fn submit(
        &self,
        copies: impl Iterator<Item = (WebGpuHandle, usize, WebGpuHandle, usize, usize)>,
    ) {
        let api = &self.api;
        // SAFETY: the device is alive.
        let encoder = unsafe { (api.encoder)(self.device, ptr::null()) };
        for (from, at, to, place, len) in copies {
            // SAFETY: the buffers are alive and have the bytes.
            unsafe { (api.copy)(encoder, from, at as u64, to, place as u64, len as u64) };
        }
        // SAFETY: the encoder was just made.
        let commands = unsafe { (api.finish)(encoder, ptr::null()) };
        // SAFETY: finished just now.
        unsafe { (api.release_encoder)(encoder) };
        // SAFETY: the queue is alive.
        unsafe { (api.submit)(self.queue, 1, &commands) };
        // SAFETY: submitted just now.
        unsafe { (api.release_commands)(commands) };
    }

    fn go(&self, how: WebGpuWay) {
        let api = &self.api;
        let all = self.sources.buffers.iter().zip(&self.places);
        match how {
            WebGpuWay::WriteEach => {
                for ((from, len), at) in all {
                    // SAFETY: the source stays, and the memory has room.
                    unsafe { (api.write)(self.queue, self.whole, *at as u64, *from, *len) };
                }
                self.submit(std::iter::empty());
                self.wait();
            }
            WebGpuWay::Mapped { parts } => {
                // SAFETY: the buffer is mapped.
                let address = unsafe { (api.mapped)(self.up, 0, self.end) };
                assert!(!address.is_null());
                // SAFETY: the mapped range has room.
                unsafe { self.sources.gather(&self.places, 0..self.places.len(), address) };
                // SAFETY: the buffer is mapped.
                unsafe { (api.unmap)(self.up) };
                self.is_up_mapped.set(false);
                if parts {
                    let copies = all.zip(&self.parts);
                    self.submit(copies.map(|(((_, len), at), to)| (self.up, *at, *to, 0, *len)));
                } else {
                    self.submit([(self.up, 0, self.whole, 0, self.end)].into_iter());
                }
                self.wait();
            }
            WebGpuWay::Back { parts } => {
                if parts {
                    let copies = all.zip(&self.parts);
                    self.submit(
                        copies.map(|(((_, len), at), from)| (*from, 0, self.down, *at, *len)),
                    );
                } else {
                    self.submit([(self.whole, 0, self.down, 0, self.end)].into_iter());
                }
                self.map(self.down, MAP_READ);
                // SAFETY: the buffer is mapped.
                let address = unsafe { (api.shown)(self.down, 0, self.end) };
                assert!(!address.is_null());
                let mut back = self.back.borrow_mut();
                // SAFETY: both have this many bytes.
                unsafe { ptr::copy_nonoverlapping(address, back.as_mut_ptr(), self.end) };
                // SAFETY: the buffer is mapped.
                unsafe { (api.unmap)(self.down) };
            }
        }
    }

    /// Maps what the next turn fills.
    fn make_ready(&self) {
        if !self.is_up_mapped.replace(true) {
            self.map(self.up, MAP_WRITE);
        }
    }
}
