//! OpenCL by hand: one `cl_mem` for all columns, filled in the ways that there are.

use std::cell::{OnceCell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use arrow_device::Batch;
use libloading::Library;

use super::by_hand::Sources;
use crate::case::{Case, Peer, WorkloadKey};

type Handle = *mut c_void;
type Wait = (u32, *const Handle, *mut Handle);

const ALL_DEVICES: u64 = 0xFFFF_FFFF;
const READ_WRITE: u64 = 1;
const IN_HOST_MEMORY: u64 = 1 << 4;
const MAP_TO_FILL: u64 = 1 << 2;
const REGION: u32 = 0x1220;
/// What PoCL and others ask of where parts begin.
const ALIGNMENT: usize = 128;

/// What is called of OpenCL.
struct Api {
    create_buffer: unsafe extern "C" fn(Handle, u64, usize, *mut c_void, *mut i32) -> Handle,
    create_part: unsafe extern "C" fn(Handle, u64, u32, *const [usize; 2], *mut i32) -> Handle,
    release: unsafe extern "C" fn(Handle) -> i32,
    write: unsafe extern "C" fn(
        Handle,
        Handle,
        u32,
        usize,
        usize,
        *const u8,
        u32,
        *const Handle,
        *mut Handle,
    ) -> i32,
    map: unsafe extern "C" fn(
        Handle,
        Handle,
        u32,
        u64,
        usize,
        usize,
        u32,
        *const Handle,
        *mut Handle,
        *mut i32,
    ) -> *mut u8,
    unmap: unsafe extern "C" fn(Handle, Handle, *mut u8, u32, *const Handle, *mut Handle) -> i32,
    finish: unsafe extern "C" fn(Handle) -> i32,
}

struct OpenClHand {
    api: Api,
    context: Handle,
    queue: Handle,
    sources: Sources,
    places: Vec<usize>,
    end: usize,
    /// What was filled before and is free again.
    spare: RefCell<Vec<Handle>>,
}

const NOTHING: Wait = (0, ptr::null(), ptr::null_mut());

/// How the memory is filled.
#[derive(Clone, Copy)]
enum OpenClFill {
    Write { blocking: bool },
    Mapped { parts: bool },
}

/// All ways, over one batch.
pub(super) fn by_hand(what: WorkloadKey, batch: impl Fn() -> Batch + 'static) -> Vec<Case> {
    let made: Rc<OnceCell<OpenClHand>> = Rc::default();
    let batch = Rc::new(batch);
    let ways = [
        ("write each, blocking", OpenClFill::Write { blocking: true }),
        ("write each, one wait", OpenClFill::Write { blocking: false }),
        ("mapped gather", OpenClFill::Mapped { parts: false }),
        ("mapped, handles", OpenClFill::Mapped { parts: true }),
    ];
    let case = |(name, how)| {
        let (made, batch) = (made.clone(), batch.clone());
        let hand = move || made.get_or_init(|| OpenClHand::new(&batch())) as *const OpenClHand;
        let after = hand.clone();
        // SAFETY: the cell keeps it as long as the case.
        let timed = move |hand: *const OpenClHand| unsafe { &*hand }.fill(how);
        // SAFETY: the cell keeps it as long as the case.
        let after = move |memory| unsafe { &*after() }.free(memory);
        Case::step(what, Peer::ByHand(name), hand, timed, after)
    };
    ways.map(case).into()
}

impl OpenClHand {
    fn new(batch: &Batch) -> Self {
        // SAFETY: the loader's initializers are trusted.
        let library: &Library =
            Box::leak(Box::new(unsafe { Library::new("libOpenCL.so.1") }.unwrap()));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of OpenCL's header.
                *unsafe { library.get($name) }.unwrap()
            };
        }
        type List = unsafe extern "C" fn(u32, *mut Handle, *mut u32) -> i32;
        type Devices = unsafe extern "C" fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
        type Context = unsafe extern "C" fn(
            *const isize,
            u32,
            *const Handle,
            *const c_void,
            *mut c_void,
            *mut i32,
        ) -> Handle;
        type Queue = unsafe extern "C" fn(Handle, Handle, u64, *mut i32) -> Handle;
        let platforms: List = function!(b"clGetPlatformIDs");
        let devices: Devices = function!(b"clGetDeviceIDs");
        let create_context: Context = function!(b"clCreateContext");
        let create_queue: Queue = function!(b"clCreateCommandQueue");
        let (mut platform, mut device, mut code) = (ptr::null_mut(), ptr::null_mut(), 0);
        // SAFETY: room for one.
        assert_eq!(unsafe { platforms(1, &mut platform, ptr::null_mut()) }, 0);
        // SAFETY: room for one.
        let found = unsafe { devices(platform, ALL_DEVICES, 1, &mut device, ptr::null_mut()) };
        assert_eq!(found, 0);
        // SAFETY: one device, nothing called back.
        let context = unsafe {
            create_context(ptr::null(), 1, &device, ptr::null(), ptr::null_mut(), &mut code)
        };
        // SAFETY: both were just made.
        let queue = unsafe { create_queue(context, device, 0, &mut code) };
        assert_eq!(code, 0);
        let api = Api {
            create_buffer: function!(b"clCreateBuffer"),
            create_part: function!(b"clCreateSubBuffer"),
            release: function!(b"clReleaseMemObject"),
            write: function!(b"clEnqueueWriteBuffer"),
            map: function!(b"clEnqueueMapBuffer"),
            unmap: function!(b"clEnqueueUnmapMemObject"),
            finish: function!(b"clFinish"),
        };
        let sources = Sources::of(batch);
        let (places, end) = sources.places(ALIGNMENT);
        Self { api, context, queue, sources, places, end, spare: RefCell::default() }
    }

    /// Memory, filled before where there is some.
    fn memory(&self) -> Handle {
        if let Some(spare) = self.spare.borrow_mut().pop() {
            return spare;
        }
        let (create, mut code) = (self.api.create_buffer, 0);
        let (flags, nothing) = (READ_WRITE | IN_HOST_MEMORY, ptr::null_mut());
        // SAFETY: the context is alive; no memory is given.
        let memory = unsafe { create(self.context, flags, self.end, nothing, &mut code) };
        assert_eq!(code, 0);
        memory
    }

    /// Fills it and waits. The memory, and handles for its parts.
    fn fill(&self, how: OpenClFill) -> Vec<Handle> {
        let (Self { api, queue, end, .. }, mut code) = (self, 0);
        let (count, list, event) = NOTHING;
        let memory = self.memory();
        let mut all = vec![memory];
        match how {
            OpenClFill::Write { blocking } => {
                for ((from, len), at) in self.sources.buffers.iter().zip(&self.places) {
                    let (wait, from, len) = (u32::from(blocking), *from, *len);
                    // SAFETY: the source stays, and the memory has room.
                    code |= unsafe {
                        (api.write)(*queue, memory, wait, *at, len, from, count, list, event)
                    };
                }
            }
            OpenClFill::Mapped { parts } => {
                let flags = MAP_TO_FILL;
                // SAFETY: all of the memory, which nothing uses.
                let address = unsafe {
                    (api.map)(*queue, memory, 1, flags, 0, *end, count, list, event, &mut code)
                };
                // SAFETY: it is mapped, and has room.
                unsafe { self.sources.gather(&self.places, 0..self.places.len(), address) };
                // SAFETY: mapped just now.
                code |= unsafe { (api.unmap)(*queue, memory, address, count, list, event) };
                for ((_, len), at) in
                    self.sources.buffers.iter().zip(&self.places).filter(|_| parts)
                {
                    let region = [*at, *len];
                    // SAFETY: a part of the memory, at a multiple of what the device asks for.
                    all.push(unsafe { (api.create_part)(memory, 0, REGION, &region, &mut code) });
                }
            }
        }
        // SAFETY: the queue is alive.
        code |= unsafe { (api.finish)(*queue) };
        assert_eq!(code, 0);
        all
    }

    fn free(&self, mut all: Vec<Handle>) {
        for part in all.drain(1..) {
            // SAFETY: the reference is the one that was made, and nothing is pending.
            assert_eq!(unsafe { (self.api.release)(part) }, 0);
        }
        self.spare.borrow_mut().append(&mut all);
    }
}
