//! Owners of SYCL's objects: devices, contexts and queues.
//!
//! A [`Context`] has a number, which is the instance of the
//! [`Runtime`](arrow_device::driver::Runtime). The number stays that of the `sycl::context` as long
//! as anybody has the context open. Two `sycl::context`s that compare equal are one context,
//! whoever made the copies.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_device::driver::PerProcess;
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Result};

use crate::functions::{ALL_DEVICES, Functions, IN_ORDER, Object};
use crate::lanes::Lanes;

/// An object that is given back when the owner is dropped.
pub(crate) struct Owned {
    object: Object,
    delete: unsafe extern "C" fn(Object),
}

// SAFETY: SYCL's objects are references to shared objects of the runtime, and "the SYCL runtime is
// thread-safe": a member function may be called on any thread.
unsafe impl Send for Owned {}
// SAFETY: the table's functions may be called on several threads at once with one object, as the
// documentation of `Functions` says, and nothing here is changed.
unsafe impl Sync for Owned {}

impl Owned {
    /// Takes an object over. `None` for null.
    ///
    /// # Safety
    /// UNS-31: `delete` gives back objects of this type; the object is the caller's.
    pub(crate) unsafe fn new(object: Object, delete: unsafe extern "C" fn(Object)) -> Option<Self> {
        // Not `then_some`, which would make an owner of null and give null back.
        (!object.is_null()).then(|| Self { object, delete })
    }

    pub(crate) fn object(&self) -> Object {
        self.object
    }

    /// Gives the object to the caller.
    pub(crate) fn into_object(self) -> Object {
        let object = self.object;
        std::mem::forget(self);
        object
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `new` was given the function for this type of object, and the object is this
        // owner's.
        unsafe { (self.delete)(self.object) };
    }
}

/// A `sycl::device`.
pub(crate) struct SyclDevice {
    functions: &'static Functions,
    device: Owned,
}

impl SyclDevice {
    /// Lists all root devices, in the order of their ids.
    pub(crate) fn all(functions: &'static Functions) -> Vec<Self> {
        // SAFETY: UNS-31: the function is that of the table; the number asks for all devices.
        let list = unsafe { (functions.list_devices)(ALL_DEVICES) };
        // SAFETY: UNS-31: the list was just made, and `list_delete` gives it back.
        let Some(list) = (unsafe { Owned::new(list, functions.list_delete) }) else {
            return Vec::new();
        };
        // SAFETY: UNS-31: the list is alive in its owner.
        let length = unsafe { (functions.list_length)(list.object()) };
        let device = |index| {
            // SAFETY: UNS-31: the list is alive in its owner, and the index is below its length.
            let device = unsafe { (functions.list_device)(list.object(), index) };
            // SAFETY: UNS-31: the copy of the device was just made.
            unsafe { Self::new(functions, device) }
        };
        // All or none, because the place in the list is the id.
        (0..length).map(device).collect::<Option<_>>().unwrap_or_default()
    }

    /// # Safety
    /// UNS-31: the object is null or a `sycl::device` of the caller's.
    pub(crate) unsafe fn new(functions: &'static Functions, device: Object) -> Option<Self> {
        // SAFETY: UNS-31: the device is the caller's, who gives it away; `device_delete` is for
        // devices.
        let device = unsafe { Owned::new(device, functions.device_delete) }?;
        Some(Self { functions, device })
    }

    pub(crate) fn object(&self) -> Object {
        self.device.object()
    }

    /// The id of the device: its index in the list of root devices. An error for a part of a
    /// device.
    pub(crate) fn id(&self) -> Result<DeviceId> {
        // SAFETY: UNS-31: the device is alive in its owner.
        let position = unsafe { (self.functions.device_position)(self.object(), ALL_DEVICES) };
        if position < 0 {
            let message = "it is no root device of the SYCL runtime: a part of a device has no id";
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("open"));
        }
        Ok(DeviceId::new(DeviceType::ONEAPI, i64::from(position)))
    }

    pub(crate) fn has(&self, aspect: c_int) -> bool {
        // SAFETY: UNS-31: the device is alive in its owner.
        unsafe { (self.functions.device_has)(self.object(), aspect) }
    }

    pub(crate) fn backend(&self) -> c_int {
        // SAFETY: UNS-31: the device is alive in its owner.
        unsafe { (self.functions.device_backend)(self.object()) }
    }

    pub(crate) fn memory(&self) -> u64 {
        // SAFETY: UNS-31: the device is alive in its owner.
        unsafe { (self.functions.device_memory)(self.object()) }
    }

    pub(crate) fn name(&self) -> String {
        self.text(self.functions.device_name)
    }

    pub(crate) fn version(&self) -> String {
        self.text(self.functions.device_version)
    }

    fn text(&self, ask: unsafe extern "C" fn(Object) -> *const std::ffi::c_char) -> String {
        // SAFETY: UNS-31: the device is alive in its owner, and the caller passes a function of the
        // table that is asked about a device.
        let text = unsafe { ask(self.object()) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: UNS-31: a text of the table's ends with a zero, and is this function's.
        let owned = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: UNS-31: the text was just made, and is given back once.
        unsafe { (self.functions.text_delete)(text) };
        owned
    }

    /// The default context of the device's platform, which dpctl, dpnp and PyTorch use as well. The
    /// context is kept until the process ends, so that whoever opens it again gets the same
    /// runtime.
    pub(crate) fn default_context(&self) -> Result<Arc<Context>> {
        // SAFETY: UNS-31: the device is alive in its owner.
        let context = unsafe { (self.functions.device_context)(self.object()) };
        // SAFETY: UNS-31: the context was just made.
        let context = unsafe { Context::known(self.functions, context) }?;
        let mut contexts = lock(CONTEXTS.get());
        if !contexts.kept.iter().any(|kept| Arc::ptr_eq(kept, &context)) {
            contexts.kept.push(context.clone());
        }
        Ok(context)
    }
}

/// A `sycl::context`, with the memory that was allocated in it here.
pub(crate) struct Context {
    functions: &'static Functions,
    context: Owned,
    number: usize,
    /// Each allocation of this crate's, by its address.
    allocations: Mutex<BTreeMap<usize, OwnAllocation>>,
    /// What the queues of the context were given here.
    lanes: Lanes,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.number)
    }
}

/// What is known of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAllocation {
    pub(crate) device: DeviceId,
    pub(crate) len: u64,
    /// Whether the host can read the memory where it lies, at any time.
    pub(crate) is_mapped: bool,
}

/// The contexts of the process.
#[derive(Default)]
struct Contexts {
    /// Those that somebody has open.
    open: Vec<Weak<Context>>,
    /// Those that stay open.
    kept: Vec<Arc<Context>>,
    /// How many contexts there were.
    count: usize,
}

static CONTEXTS: PerProcess<Mutex<Contexts>> =
    PerProcess::new(Mutex::new(Contexts { open: Vec::new(), kept: Vec::new(), count: 0 }));

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a context with this number is open.
pub(crate) fn is_open(number: usize) -> bool {
    let contexts = lock(CONTEXTS.get());
    contexts.open.iter().filter_map(Weak::upgrade).any(|open| open.number == number)
}

impl Context {
    /// Returns the one owner of this context, and takes the object over.
    ///
    /// # Safety
    /// UNS-31: the object is null or a `sycl::context` of the caller's.
    pub(crate) unsafe fn known(
        functions: &'static Functions,
        context: Object,
    ) -> Result<Arc<Self>> {
        // SAFETY: UNS-31: the context is the caller's, who gives it away; `context_delete` is for
        // contexts.
        let Some(context) = (unsafe { Owned::new(context, functions.context_delete) }) else {
            let message = "SYCL has no context for the device";
            return Err(Error::new(ErrorKind::Driver, message).during("open"));
        };
        let mut contexts = lock(CONTEXTS.get());
        contexts.open.retain(|open| open.strong_count() > 0);
        for open in contexts.open.iter().filter_map(Weak::upgrade) {
            // SAFETY: UNS-31: both contexts are alive in their owners.
            if unsafe { (functions.context_equals)(open.object(), context.object()) } {
                return Ok(open);
            }
        }
        contexts.count += 1;
        let number = contexts.count;
        let (allocations, lanes) = (Mutex::default(), Lanes::new(functions));
        let made = Arc::new(Self { functions, context, number, allocations, lanes });
        contexts.open.push(Arc::downgrade(&made));
        Ok(made)
    }

    pub(crate) fn object(&self) -> Object {
        self.context.object()
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The kind of memory at an address, by the table's numbers. The address 0 has no memory.
    pub(crate) fn kind_at(&self, address: usize) -> c_int {
        if address == 0 {
            return crate::functions::NO_USM;
        }
        let address = std::ptr::without_provenance(address);
        // SAFETY: UNS-31: the runtime looks the address up and does not follow it; the context is
        // alive in its owner.
        unsafe { (self.functions.memory_kind)(address, self.object()) }
    }

    pub(crate) fn remember(&self, address: usize, allocation: OwnAllocation) {
        lock(&self.allocations).insert(address, allocation);
    }

    pub(crate) fn forget(&self, address: usize) {
        lock(&self.allocations).remove(&address);
    }

    /// The allocation of this crate's that an address lies in, and how many bytes there are from
    /// the address to its end.
    pub(crate) fn located(&self, address: usize) -> Option<(OwnAllocation, u64)> {
        let allocations = lock(&self.allocations);
        let (start, allocation) = allocations.range(..=address).next_back()?;
        let remaining = allocation.len.checked_sub((address - start) as u64)?;
        (remaining > 0).then_some((*allocation, remaining))
    }
}

/// Makes a queue, in order or not.
pub(crate) fn make_queue(
    functions: &Functions,
    context: &Context,
    device: &SyclDevice,
    is_in_order: bool,
) -> Option<Owned> {
    let properties = if is_in_order { IN_ORDER } else { 0 };
    // SAFETY: UNS-31: context and device are alive in their owners; without a handler, errors that
    // come later are the runtime's affair.
    let queue =
        unsafe { (functions.queue_create)(context.object(), device.object(), None, properties) };
    // SAFETY: UNS-31: the queue was just made; `queue_delete` is for queues.
    unsafe { Owned::new(queue, functions.queue_delete) }
}
