//! [`TensorMemory`]: what the elements of a tensor lie in.
//!
//! That is an array, whose tree knows when it is ready and which queues use it. A tensor that was
//! imported complete is no more than the producer's struct at first: most are looked at and handed
//! on, and need nothing else. The array is made when the memory is shared, read, or used on a queue
//! for the first time.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Dtype;
use super::managed::{Exported, Form, Managed};
use super::storage::plain_schema;
use crate::abi::ArrowArray;
use crate::array::structs::{ForeignArray, Structs, StructsBelow};
use crate::array::{BufferPointer, ReadyWhen, Storage, Tree};
use crate::device::deferred;
use crate::device::driver::Raw;
use crate::ffi::release::release_share;
use crate::pool::shared::Shared;
use crate::process::MadeIn;
use crate::sync::lock;
use crate::{
    Array, ArrayBuilder, Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Result, Schema,
};

/// The buffer of an array that has the elements.
pub(crate) const ELEMENTS: usize = 1;

/// The memory of a tensor, on one device.
pub(crate) struct TensorMemory {
    held: ElementOwner,
    device: DeviceId,
    base: Raw<crate::Memory>,
}

/// Both have the elements in buffer [`ELEMENTS`], whatever the array's own type and window.
enum ElementOwner {
    Array(Array),
    Imported(ImportedTensor),
}

/// What was imported, as it came or as an array.
struct ImportedTensor {
    /// A share of an [`Array`], or null as long as nothing was shared. Set once, under the lock. (A
    /// cell that holds words which nobody has written yet would be made elsewhere and copied here.)
    array: AtomicPtr<c_void>,
    /// What the array will own, as long as there is none.
    unshared: Mutex<Option<Exported>>,
    /// How many bytes there are from the base on, at least.
    len: u64,
    /// What they are, if they lie one behind the other from the base on.
    elements: Option<Dtype>,
    /// Which process took the tensor over. Nothing for host memory, which every one may give back.
    made_in: Option<MadeIn>,
}

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
        if !self.made_in.is_none_or(MadeIn::is_this) {
            // As an array on a device of the parent's, in a child of `fork`.
            let unshared = self.unshared.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(unshared) = unshared.take() {
                std::mem::forget(unshared);
                deferred::count_abandoned();
            }
        }
        // SAFETY: null, or the share that `share` gave away, which nobody else takes back.
        drop(unsafe { Shared::<Array>::from_raw(*self.array.get_mut()) });
    }
}

/// What keeps the elements of an imported tensor, and the table of buffers of their array.
struct KeptManaged {
    buffers: [BufferPointer; 2],
    _managed: Option<Exported>,
}

impl TensorMemory {
    /// The memory of a buffer [`ELEMENTS`] of an array.
    #[inline]
    pub(crate) fn of(array: Array) -> Self {
        let base = Raw::from_ptr(array.node().buffer(ELEMENTS).cast_mut());
        Self { device: array.device(), base, held: ElementOwner::Array(array) }
    }

    /// What an imported tensor says that it is, which is ready: at most as many bytes as an array
    /// has.
    #[inline(always)]
    pub(crate) fn imported<F: Form>(
        managed: Managed<F>,
        device: DeviceId,
        base: Raw<crate::Memory>,
        len: u64,
        elements: Option<Dtype>,
    ) -> Self {
        let unshared = Mutex::new(Some(F::exported(managed)));
        let array = AtomicPtr::new(ptr::null_mut());
        let is_host = device.device_type == DeviceType::CPU;
        let made_in = if is_host { None } else { Some(MadeIn::this()) };
        let imported = ImportedTensor { array, unshared, len, elements, made_in };
        Self { device, base, held: ElementOwner::Imported(imported) }
    }

    /// The memory as an array, which is made now if there was none.
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
        let mut unshared = lock(&imported.unshared);
        if imported.array().is_none() {
            let shared = self.array_of_imported(imported, unshared.take()).and_then(Shared::new);
            let Ok(shared) = shared else {
                std::alloc::handle_alloc_error(Layout::new::<KeptManaged>())
            };
            imported.array.store(Shared::into_raw(shared).cast_mut(), Ordering::Release);
        }
        match imported.array() {
            Some(array) => array,
            None => unreachable!("it is there by now"),
        }
    }

    /// An array whose structs are ours, as if it had been imported itself. An error where there is
    /// no memory.
    fn array_of_imported(
        &self,
        imported: &ImportedTensor,
        managed: Option<Exported>,
    ) -> Result<Array> {
        let (schema, width) = schema_for(imported.elements)?;
        let length = imported.len.checked_div(width).unwrap_or(0);
        let buffers = [ptr::null(), self.base.as_ptr().cast_const().cast()].map(BufferPointer);
        let kept = Shared::new(KeptManaged { buffers, _managed: managed })?;
        let base = ArrowArray {
            // At most the largest length of memory.
            length: length as i64,
            n_buffers: kept.buffers.len() as i64,
            buffers: kept.buffers.as_ptr().cast_mut().cast(),
            release: Some(release_share::<ArrowArray, KeptManaged>),
            private_data: Shared::into_raw(kept).cast_mut(),
            ..ArrowArray::empty()
        };
        // SAFETY: this is the struct of an array of numbers: a table of two buffers, of which the
        // bitmap is not there, and nothing below. The length is not negative; so many elements are
        // where the base is, which is null only where there are none: an import saw to both. The
        // struct and its table stay until the release.
        let structs = unsafe { Structs::new(ForeignArray(base), StructsBelow::Children) };
        let storage = Storage::Foreign(structs);
        let mut tree = Tree::new(schema.clone(), self.device, ReadyWhen::Now, storage);
        if let Some(made_in) = imported.made_in {
            tree.set_made_in(made_in);
        }
        Ok(Array::from_tree(Shared::new(tree)?))
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

/// An array of all bytes of a buffer.
pub(crate) fn bytes_of(
    buffer: Buffer,
    finish: impl FnOnce(ArrayBuilder) -> Result<Array>,
) -> Result<Array> {
    array_of(buffer, None, finish)
}

/// An array of these elements or, where Arrow has none like them, of bytes.
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
    static BYTES: OnceLock<Option<Schema>> = OnceLock::new();
    let bytes = || BYTES.get_or_init(|| Schema::try_from(DataType::UInt8).ok()).as_ref();
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
