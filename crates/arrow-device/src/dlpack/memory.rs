//! [`TensorMemory`]: the memory that the elements of a tensor lie in.
//!
//! The memory is an array, whose tree knows when it is ready and which queues use it. For an
//! imported tensor whose data is complete, the array is made late: at first the memory is just the
//! producer's struct, because most tensors are looked at and handed on. The array is made when the
//! memory is first shared, read, or used on a queue.
//!
//! Threads that need the array at the same time each make one, and one of them is stored. No thread
//! waits for another one, because a child of `fork` could wait for ever. What must stay true: the
//! producer's struct goes to the array that was stored and to no other, and is deleted once.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use super::Dtype;
use super::managed::{Exported, Form, Managed};
use super::storage::plain_schema;
use crate::abi::ArrowArray;
use crate::array::structs::{ForeignArray, Structs, StructsBelow};
use crate::array::{BufferPointer, ReadyWhen, Storage, Tree};
use crate::device::driver::Raw;
use crate::device::{Arrival, deferred};
use crate::ffi::release::release_share;
use crate::once::OnceBox;
use crate::pool::shared::Shared;
use crate::{
    Array, ArrayBuilder, Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Result, Schema,
};

/// The number of the array's buffer with the elements.
pub(crate) const ELEMENTS: usize = 1;

/// The memory of a tensor, on one device.
pub(crate) struct TensorMemory {
    held: ElementOwner,
    device: DeviceId,
    base: Raw<crate::Memory>,
}

/// In both cases the elements are in buffer [`ELEMENTS`], whatever the array's own type and window
/// are.
enum ElementOwner {
    Array(Array),
    Imported(ImportedTensor),
}

/// An imported tensor: the producer's struct, or an array of it.
struct ImportedTensor {
    /// A share of an [`Array`], or null as long as nothing was shared. Set once. No thread waits
    /// for another one that makes the array, because a child of `fork` would wait for ever.
    array: AtomicPtr<c_void>,
    /// The producer's struct. It belongs to this value as long as `array` is null, and then to the
    /// thread that has set `array`, which moves the struct to the array.
    unshared: UnsafeCell<ManuallyDrop<Exported>>,
    /// The least number of bytes from the base on.
    len: u64,
    /// The type of the elements, if they lie one behind the other from the base on.
    elements: Option<Dtype>,
    /// `None` for host memory, which every process may give back.
    arrival: Option<Arrival>,
}

// SAFETY: through a shared reference one thread reads `unshared`, once: the thread that changes
// `array` from null. `Exported` is `Send`, and all other members are `Sync`.
unsafe impl Sync for ImportedTensor {}

impl ImportedTensor {
    #[inline]
    fn array(&self) -> Option<&Array> {
        let shared = self.array.load(Ordering::Acquire);
        // SAFETY: null, or a share that stays until this is dropped; the load acquires what was
        // written before it was set.
        unsafe { Shared::peek(shared) }
    }
}

impl Drop for ImportedTensor {
    fn drop(&mut self) {
        let array = *self.array.get_mut();
        if array.is_null() {
            if self.arrival.is_none_or(|arrival| arrival.process.is_this()) {
                // SAFETY: `array` is null, so nobody has moved the value, and this is its end.
                unsafe { ManuallyDrop::drop(self.unshared.get_mut()) };
            } else {
                // Treated as an array on a device of the parent in a child of `fork`.
                deferred::count_abandoned();
            }
        }
        // SAFETY: null, or the share that `share` gave away, which nobody else takes back.
        drop(unsafe { Shared::<Array>::from_raw(array) });
    }
}

/// Keeps the elements of an imported tensor alive, and has the table of buffers of their array.
struct KeptManaged {
    buffers: [BufferPointer; 2],
    /// Written before `state` says so, by the one thread that calls `give`.
    managed: UnsafeCell<MaybeUninit<Exported>>,
    /// [`AWAITED`], [`GIVEN`] or [`UNWANTED`].
    state: AtomicU8,
}

/// The array is being stored. The producer's struct is to follow.
const AWAITED: u8 = 0;
/// The producer's struct is in `managed`.
const GIVEN: u8 = 1;
/// The array of another thread was stored instead, and gets the producer's struct.
const UNWANTED: u8 = 2;

// SAFETY: through a shared reference `managed` is written, once, by the thread that has stored the
// array; only `Drop` reads `managed`, which has the value for itself. `Exported` is `Send`.
unsafe impl Sync for KeptManaged {}

impl KeptManaged {
    fn new(buffers: [BufferPointer; 2]) -> Self {
        let managed = UnsafeCell::new(MaybeUninit::uninit());
        Self { buffers, managed, state: AtomicU8::new(AWAITED) }
    }

    /// Puts the producer's struct into `managed`.
    ///
    /// # Safety
    /// Called once for a value.
    unsafe fn give(&self, managed: Exported) {
        // SAFETY: this is the one call for this value, and nobody else writes or reads there before
        // `Drop`, which has the value for itself.
        unsafe { self.managed.get().write(MaybeUninit::new(managed)) };
        self.state.store(GIVEN, Ordering::Release);
    }
}

impl Drop for KeptManaged {
    fn drop(&mut self) {
        match *self.state.get_mut() {
            // SAFETY: the state says that `give` has written the value, and this is its end.
            GIVEN => unsafe { self.managed.get_mut().assume_init_drop() },
            // A child of `fork` that began after the array was stored and before `give` was called.
            AWAITED => deferred::count_abandoned(),
            _ => {}
        }
    }
}

/// The callback of arrays that are made of imported tensors. A static, because each use of a
/// function's name may give another address.
static RELEASE_KEPT: unsafe extern "C" fn(*mut ArrowArray) =
    release_share::<ArrowArray, KeptManaged>;

/// The imported tensor of which the struct of an array was made.
pub(super) fn tensor_behind(base: &ArrowArray) -> Option<&Exported> {
    if !base.release.is_some_and(|release| ptr::fn_addr_eq(release, RELEASE_KEPT)) {
        return None;
    }
    // SAFETY: the struct is not released, and the callback is the one that takes back the share
    // that `private_data` is; nobody calls it as long as the struct is borrowed.
    let kept = unsafe { Shared::<KeptManaged>::peek(base.private_data) }?;
    if kept.state.load(Ordering::Acquire) != GIVEN {
        return None;
    }
    // SAFETY: `give` has written the value before it set the state, and nobody writes there
    // afterwards but `Drop`, which has the value for itself.
    let managed = unsafe { &*kept.managed.get() };
    // SAFETY: the state, which was acquired, says that the value is there.
    Some(unsafe { managed.assume_init_ref() })
}

impl TensorMemory {
    /// The memory whose elements are in buffer [`ELEMENTS`] of an array.
    #[inline]
    pub(crate) fn of(array: Array) -> Self {
        let base = Raw::from_ptr(array.node().buffer(ELEMENTS).cast_mut());
        Self { device: array.device(), base, held: ElementOwner::Array(array) }
    }

    /// The memory of an imported tensor whose data is ready. It has at most as many bytes as an
    /// array may have.
    pub(crate) fn imported<F: Form>(
        managed: Managed<F>,
        device: DeviceId,
        base: Raw<crate::Memory>,
        len: u64,
        elements: Option<Dtype>,
    ) -> Self {
        let is_host = device.device_type == DeviceType::CPU;
        let arrival = if is_host { None } else { Some(arrival_of(&managed)) };
        let unshared = UnsafeCell::new(ManuallyDrop::new(F::exported(managed)));
        let array = AtomicPtr::new(ptr::null_mut());
        let imported = ImportedTensor { array, unshared, len, elements, arrival };
        Self { device, base, held: ElementOwner::Imported(imported) }
    }

    /// The memory as an array, which is made now if there is none.
    pub(crate) fn array(&self) -> &Array {
        match &self.held {
            ElementOwner::Array(array) => array,
            ElementOwner::Imported(imported) => {
                imported.array().unwrap_or_else(|| self.share(imported))
            }
        }
    }

    #[cold]
    fn share<'a>(&self, imported: &'a ImportedTensor) -> &'a Array {
        let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
        let made = self.array_of_imported(imported);
        let Ok((array, kept)) = made.and_then(|(array, kept)| Ok((Shared::new(array)?, kept)))
        else {
            std::alloc::handle_alloc_error(Layout::new::<KeptManaged>())
        };
        let fresh = Shared::into_raw(array).cast_mut();
        if imported.array.compare_exchange(ptr::null_mut(), fresh, before, after).is_ok() {
            // SAFETY: this thread alone has changed `array` from null, and nobody else reads the
            // value from then on: `Drop` does only where `array` is null.
            let unshared = unsafe { imported.unshared.get().read() };
            // SAFETY: `kept` was made for this array, and this thread stores an array once.
            unsafe { kept.give(ManuallyDrop::into_inner(unshared)) };
        } else {
            kept.state.store(UNWANTED, Ordering::Relaxed);
            // SAFETY: `into_raw` gave the pointer just now, and nobody else has seen it.
            drop(unsafe { Shared::<Array>::from_raw(fresh) });
        }
        match imported.array() {
            Some(array) => array,
            None => unreachable!("it is there by now"),
        }
    }

    /// An array over the imported tensor's memory, with structs of our own, and the place for the
    /// producer's struct that keeps the memory. An error where there is no memory.
    fn array_of_imported(&self, imported: &ImportedTensor) -> Result<(Array, Shared<KeptManaged>)> {
        let (schema, width) = schema_for(imported.elements)?;
        let length = imported.len.checked_div(width).unwrap_or(0);
        let buffers = [ptr::null(), self.base.as_ptr().cast_const().cast()].map(BufferPointer);
        let kept = Shared::new(KeptManaged::new(buffers))?;
        let base = ArrowArray {
            // At most the largest length of memory.
            length: length as i64,
            n_buffers: kept.buffers.len() as i64,
            buffers: kept.buffers.as_ptr().cast_mut().cast(),
            release: Some(RELEASE_KEPT),
            private_data: Shared::into_raw(kept.clone()).cast_mut(),
            ..ArrowArray::empty()
        };
        // SAFETY: this is the struct of an array of numbers: a table of two buffers, of which the
        // bitmap is not there, and nothing below. The length is not negative; so many elements are
        // where the base is, which is null only where there are none: an import saw to both. The
        // struct and its table stay until the release.
        let structs = unsafe { Structs::new(ForeignArray(base), StructsBelow::Children) };
        let storage = Storage::Foreign(structs);
        let mut tree = Tree::new(schema.clone(), self.device, ReadyWhen::Now, storage);
        tree.set_complete();
        if let Some(arrival) = imported.arrival {
            tree.set_arrival(arrival);
        }
        Ok((Array::from_tree(Shared::new(tree)?), kept))
    }

    /// The arrival of memory on a device. `None` for host memory.
    pub(crate) fn arrival(&self) -> Option<Arrival> {
        match &self.held {
            ElementOwner::Array(_) if self.device.device_type == DeviceType::CPU => None,
            ElementOwner::Array(array) => Some(array.tree().arrival()),
            ElementOwner::Imported(imported) => imported.arrival,
        }
    }

    /// Calls `visit` with the imported tensors that this memory alone keeps. Without any call where
    /// the memory has another share.
    pub(super) fn for_each_import(&self, visit: &mut dyn FnMut(&Exported)) {
        match (self.shared(), &self.held) {
            (Some(array), _) => array.for_each_sole_import(visit),
            (None, ElementOwner::Imported(imported)) => {
                // SAFETY: the rule of references that Rust's reference has: nobody writes there but
                // `Drop`, which has the value for itself. A thread that makes the array meanwhile
                // moves the value out by a read, and the array keeps the tensor.
                visit(unsafe { &*imported.unshared.get() });
            }
            (None, ElementOwner::Array(_)) => {}
        }
    }

    /// The array, if there is one.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&Array> {
        match &self.held {
            ElementOwner::Array(array) => Some(array),
            ElementOwner::Imported(imported) => imported.array(),
        }
    }

    #[inline]
    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    #[inline]
    pub(crate) fn base(&self) -> Raw<crate::Memory> {
        self.base
    }
}

impl Clone for TensorMemory {
    fn clone(&self) -> Self {
        let held = ElementOwner::Array(self.array().clone());
        Self { held, device: self.device, base: self.base }
    }
}

/// The arrival of the memory of an imported tensor on a device: this process and now, unless the
/// tensor was exported here before.
#[inline(never)]
pub(crate) fn arrival_of<F: Form>(managed: &Managed<F>) -> Arrival {
    managed.arrival_before_export().unwrap_or_else(Arrival::now)
}

/// An array of all bytes of a buffer.
pub(crate) fn bytes_of(
    buffer: Buffer,
    finish: impl FnOnce(ArrayBuilder) -> Result<Array>,
) -> Result<Array> {
    array_of(buffer, None, finish)
}

/// An array of these elements, or of bytes where Arrow has no such type.
pub(crate) fn array_of(
    buffer: Buffer,
    elements: Option<Dtype>,
    finish: impl FnOnce(ArrayBuilder) -> Result<Array>,
) -> Result<Array> {
    let (schema, width) = schema_for(elements)?;
    let count = buffer.extent().at_least().checked_div(width).unwrap_or(0);
    let len = usize::try_from(count).unwrap_or(usize::MAX);
    let device = buffer.device();
    let buffer = (!buffer.is_null()).then_some(buffer);
    finish(Array::builder(schema).device(device).len(len).buffers([None, buffer]))
}

/// The schema for an array of these elements, or of bytes, and how many bytes an element takes.
fn schema_for(elements: Option<Dtype>) -> Result<(&'static Schema, u64)> {
    static BYTES: OnceBox<Option<Schema>> = OnceBox::new();
    let schema = || Schema::try_from(DataType::UInt8).ok();
    let bytes = || BYTES.get_or_make(schema).as_ref();
    let plain = elements.and_then(|dtype| Some((plain_schema(dtype)?, dtype.byte_width()?)));
    let typed = plain.or_else(|| Some((bytes()?, 1)));
    typed.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "there is no schema for bytes"))
}

#[cfg(test)]
mod tests {
    use crate::Buffer;
    use crate::abi::dlpack::DLManagedTensorVersioned;
    use crate::dlpack::{CopyPolicy, Dtype, Managed, Order, Tensor};

    fn imported() -> Tensor {
        let numbers = Buffer::from(vec![1_i64, 2, 3]);
        let made = Tensor::from_buffer(numbers, Dtype::INT64, &[3]).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            made.export(Order::Host, CopyPolicy::Never).unwrap();
        // SAFETY: a tensor that was just handed over, of memory that nobody writes to.
        unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap()
    }

    #[test]
    fn threads_that_share_at_once_have_one_array() {
        for _ in 0..if cfg!(miri) { 4 } else { 100 } {
            let tensor = imported();
            let place = || std::ptr::from_ref(tensor.memory()).addr();
            let places = std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(place));
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(places, [place(); 4]);
            assert_eq!(tensor.host().unwrap().to_vec::<i64>().unwrap(), [1, 2, 3]);
        }
    }

    #[test]
    fn what_was_imported_is_an_array_of_its_elements_and_outlives_the_tensor() {
        let tensor = imported();
        assert!(tensor.shared_memory().is_none());
        let array = tensor.memory().clone();
        drop(tensor);
        assert_eq!((array.len(), array.null_count(), array.buffer_count()), (3, Some(0), 2));
        assert_eq!(array.data_type(), &crate::DataType::Int64);
        array.validate().unwrap();
        assert_eq!(array.host().unwrap().values::<i64>().unwrap().get(2), Some(3));
    }
}
