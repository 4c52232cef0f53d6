//! A producer of C structs: one allocation for each part of a plan, each counted, as a program in C
//! would do.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};

use crate::ledger::{Bytes, Ledger};
use crate::plan::{Content, Plan};

/// How a producer frees what lies below a base structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The release of a node calls the releases of its children, as the specification describes it.
    NodeByNode,
    /// The release of the base frees everything. Nobody may call the release of a child, neither
    /// before nor after that.
    AllByTheBase,
}

/// Makes a schema. Its base counts as one release.
pub fn schema(plan: &Plan, ledger: &Arc<Ledger>) -> ArrowSchema {
    schema_node(plan, ledger, true)
}

/// Makes an array. Its base counts as one release.
pub fn array(plan: &Plan, ledger: &Arc<Ledger>) -> ArrowArray {
    array_in_manner(plan, ledger, Manner::NodeByNode)
}

/// Makes an array that is freed in this manner.
pub fn array_in_manner(plan: &Plan, ledger: &Arc<Ledger>, manner: Manner) -> ArrowArray {
    array_node(plan, ledger, manner, true)
}

/// Makes an array whose base owns something more, which is dropped when the base is released.
pub fn array_owning(
    plan: &Plan,
    ledger: &Arc<Ledger>,
    manner: Manner,
    owned: impl Send + 'static,
) -> ArrowArray {
    let array = array_in_manner(plan, ledger, manner);
    // The array was made here and nobody else has it yet.
    let private = unsafe { &mut *array.private_data.cast::<ArrayPrivate>() };
    private.owned = Some(Box::new(owned));
    array
}

/// Drops the additional value that the base of such an array owns. For peers that free one part and
/// not another.
pub(crate) fn drop_owned(array: &ArrowArray) {
    let private = unsafe { &mut *array.private_data.cast::<ArrayPrivate>() };
    private.owned = None;
}

/// Makes an array in host memory, as the device interface describes it.
pub fn device_array(plan: &Plan, ledger: &Arc<Ledger>) -> ArrowDeviceArray {
    on_device(array(plan, ledger), 1, -1)
}

/// Makes an array on this device that is ready now.
pub fn on_device(array: ArrowArray, device_type: i32, device_id: i64) -> ArrowDeviceArray {
    // Shipped producers leave garbage in `reserved`.
    let reserved = [0x5a5a_5a5a; 3];
    ArrowDeviceArray { array, device_id, device_type, sync_event: ptr::null_mut(), reserved }
}

struct SchemaPrivate {
    ledger: Arc<Ledger>,
    is_base: bool,
    _format: Vec<u8>,
    _name: Option<Vec<u8>>,
    _metadata: Option<Vec<u8>>,
    /// The children that are freed, whatever the table contains by then.
    children: Vec<*mut ArrowSchema>,
    _shown: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

fn schema_node(plan: &Plan, ledger: &Arc<Ledger>, is_base: bool) -> ArrowSchema {
    let below = |plan: &Plan| Box::into_raw(Box::new(schema_node(plan, ledger, false)));
    let children: Vec<*mut ArrowSchema> = plan.children.iter().map(below).collect();
    let mut shown = children.clone();
    let dictionary = plan.dictionary.as_deref().map_or(ptr::null_mut(), below);
    // Vectors, because moving a boxed string invalidates the pointers to it.
    let format = plan.format.clone().into_bytes_with_nul();
    let name = plan.name.clone().map(CString::into_bytes_with_nul);
    let metadata = plan.metadata.clone();
    ledger.opened();
    ArrowSchema {
        format: format.as_ptr().cast::<c_char>(),
        name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr().cast::<c_char>()),
        metadata: metadata.as_ref().map_or(ptr::null(), |bytes| bytes.as_ptr().cast::<c_char>()),
        flags: plan.flags,
        n_children: children.len() as i64,
        children: table(&mut shown),
        dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(Box::new(SchemaPrivate {
            ledger: ledger.clone(),
            is_base,
            _format: format,
            _name: name,
            _metadata: metadata,
            children,
            _shown: shown,
            dictionary,
        }))
        .cast(),
    }
}

/// Returns a table of pointers for C, null where there are none.
fn table<T>(entries: &mut Vec<*mut T>) -> *mut *mut T {
    if entries.is_empty() { ptr::null_mut() } else { entries.as_mut_ptr() }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    let private = unsafe { Box::from_raw((*schema).private_data.cast::<SchemaPrivate>()) };
    for below in private.children.iter().copied().chain([private.dictionary]) {
        if below.is_null() {
            continue;
        }
        if let Some(release) = unsafe { (*below).release } {
            unsafe { release(below) };
        }
        drop(unsafe { Box::from_raw(below) });
    }
    if private.is_base {
        private.ledger.base_released();
    }
    private.ledger.closed();
    unsafe { (*schema).release = None };
}

struct ArrayPrivate {
    ledger: Arc<Ledger>,
    is_base: bool,
    is_released: bool,
    bytes: Vec<Bytes>,
    buffers: Vec<*mut c_void>,
    /// The children that are freed, whatever the table contains by then.
    children: Vec<*mut ArrowArray>,
    _shown: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
    owned: Option<Box<dyn Send>>,
}

fn array_node(plan: &Plan, ledger: &Arc<Ledger>, manner: Manner, is_base: bool) -> ArrowArray {
    let below = |plan: &Plan| Box::into_raw(Box::new(array_node(plan, ledger, manner, false)));
    let children: Vec<*mut ArrowArray> = plan.children.iter().map(below).collect();
    let mut shown = children.clone();
    let dictionary = plan.dictionary.as_deref().map_or(ptr::null_mut(), below);
    let mut bytes = Vec::new();
    let mut buffers: Vec<*mut c_void> = plan
        .buffers
        .iter()
        .map(|content| match content {
            Content::Null => ptr::null_mut(),
            Content::At(address) => ptr::without_provenance_mut(*address),
            Content::On(memory) => memory.as_ptr(),
            Content::Bytes(contents) => {
                let buffer = Bytes::new(contents.clone(), ledger);
                let address = buffer.address().cast_mut();
                bytes.push(buffer);
                address
            }
        })
        .collect();
    ledger.opened();
    let release = match (manner, is_base) {
        (Manner::NodeByNode, _) => release_array,
        (Manner::AllByTheBase, true) => release_everything,
        (Manner::AllByTheBase, false) => forbidden,
    };
    ArrowArray {
        length: plan.length,
        null_count: plan.null_count,
        offset: plan.offset,
        n_buffers: buffers.len() as i64,
        n_children: children.len() as i64,
        buffers: table(&mut buffers).cast(),
        children: table(&mut shown),
        dictionary,
        release: Some(release),
        private_data: Box::into_raw(Box::new(ArrayPrivate {
            ledger: ledger.clone(),
            is_base,
            is_released: false,
            bytes,
            buffers,
            children,
            _shown: shown,
            dictionary,
            owned: None,
        }))
        .cast(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    let private = unsafe { Box::from_raw((*array).private_data.cast::<ArrayPrivate>()) };
    for below in private.children.iter().copied().chain([private.dictionary]) {
        if below.is_null() {
            continue;
        }
        if let Some(release) = unsafe { (*below).release } {
            unsafe { release(below) };
        }
        drop(unsafe { Box::from_raw(below) });
    }
    if private.is_base {
        private.ledger.base_released();
    }
    private.ledger.closed();
    unsafe { (*array).release = None };
}

/// Frees everything except the structs themselves, and leaves callbacks in them that complain when
/// they are called.
unsafe extern "C" fn release_everything(array: *mut ArrowArray) {
    let private = unsafe { &mut *(*array).private_data.cast::<ArrayPrivate>() };
    if private.is_released {
        return private.ledger.complain("the base was released twice");
    }
    private.ledger.base_released();
    unsafe { bury(array) };
    unsafe { (*array).release = None };
}

unsafe fn bury(array: *mut ArrowArray) {
    let private = unsafe { &mut *(*array).private_data.cast::<ArrayPrivate>() };
    GRAVES.lock().unwrap().push(Grave(ptr::from_mut(private).cast()));
    for below in private.children.iter().copied().chain([private.dictionary]) {
        if !below.is_null() {
            unsafe { bury(below) };
            let (release, private_data) =
                (Some(called_after_release as _), unsafe { (*below).private_data });
            unsafe { *below = ArrowArray { release, private_data, ..ArrowArray::empty() } };
        }
    }
    private.bytes.clear();
    private.owned = None;
    private.buffers.fill(ptr::without_provenance_mut(0xdead));
    private.is_released = true;
    private.ledger.closed();
}

/// Structs that are never freed, to see who still calls their callbacks. They take a few bytes for
/// each test.
static GRAVES: Mutex<Vec<Grave>> = Mutex::new(Vec::new());

struct Grave(#[expect(dead_code, reason = "keeps what it points to reachable")] *mut c_void);

// SAFETY: never looked at.
unsafe impl Send for Grave {}

unsafe extern "C" fn forbidden(array: *mut ArrowArray) {
    let private = unsafe { &*(*array).private_data.cast::<ArrayPrivate>() };
    private.ledger.complain("the release of a child was called");
}

unsafe extern "C" fn called_after_release(array: *mut ArrowArray) {
    let private = unsafe { &*(*array).private_data.cast::<ArrayPrivate>() };
    private.ledger.complain("the release of a child was called after that of the base");
}
