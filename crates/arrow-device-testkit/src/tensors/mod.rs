//! The other side of DLPack, written by hand: a producer whose every field can be wrong, a consumer
//! that checks everything, and tensors of every type in every layout. Deletions are counted.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

pub mod consumer;
pub mod conversions;
pub mod hostile;
pub mod matrix;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::dlpack::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
    DLTensor,
};
use arrow_device::dlpack::Form;

/// A counter of events that several places share.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicUsize>);

impl Count {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how often the event happened.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until the event has happened so often, because the thread of another test may be the
    /// one that releases.
    pub fn reaches(&self, times: usize) -> bool {
        crate::release_until(|| self.get() >= times) && self.get() == times
    }
}

/// An owner of memory that counts when it is dropped.
#[derive(Debug)]
pub struct Counted<T>(pub T, pub Count);

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.1.add();
    }
}

/// Everything that a producer says, to be changed at will. The default is right: six `int32` on the
/// CPU, in two rows.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The version, only in the newer form.
    pub version: DLPackVersion,
    /// The flags, only in the newer form.
    pub flags: u64,
    /// The data; `None` is a null pointer.
    pub bytes: Option<Vec<u8>>,
    /// An address instead of that of `bytes`, for devices that do not exist.
    pub data: Option<*mut c_void>,
    /// The lengths of the dimensions; `None` is a null pointer.
    pub shape: Option<Vec<i64>>,
    /// The strides; `None` is a null pointer.
    pub strides: Option<Vec<i64>>,
    /// The number of dimensions, if it differs from the number of lengths.
    pub ndim: Option<i32>,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The device.
    pub device: DLDevice,
    /// How many bytes the first element is behind `data`.
    pub byte_offset: u64,
    /// Whether the tensor has a deleter.
    pub has_deleter: bool,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            version: DLPackVersion { major: 1, minor: 3 },
            flags: 1,
            bytes: Some((0..6_i32).flat_map(i32::to_ne_bytes).collect()),
            data: None,
            shape: Some(vec![2, 3]),
            strides: Some(vec![3, 1]),
            ndim: None,
            dtype: DLDataType { code: 0, bits: 32, lanes: 1 },
            device: DLDevice { device_type: DLDeviceType(1), device_id: 0 },
            byte_offset: 0,
            has_deleter: true,
        }
    }
}

/// The two forms, as a test makes and reads them.
pub trait TestForm: Form + Sized {
    /// Makes the struct of a recipe.
    fn make(recipe: &Recipe, tensor: DLTensor, context: *mut c_void) -> Self;
    /// Returns the context that `make` was given.
    fn context(this: *mut Self) -> *mut c_void;
}

impl TestForm for DLManagedTensorVersioned {
    fn make(recipe: &Recipe, dl_tensor: DLTensor, manager_ctx: *mut c_void) -> Self {
        let deleter = recipe.has_deleter.then_some(delete::<Self> as _);
        let (version, flags) = (recipe.version, recipe.flags);
        Self { version, manager_ctx, deleter, flags, dl_tensor }
    }

    fn context(this: *mut Self) -> *mut c_void {
        unsafe { (*this).manager_ctx }
    }
}

impl TestForm for DLManagedTensor {
    fn make(recipe: &Recipe, dl_tensor: DLTensor, manager_ctx: *mut c_void) -> Self {
        let deleter = recipe.has_deleter.then_some(delete::<Self> as _);
        Self { dl_tensor, manager_ctx, deleter }
    }

    fn context(this: *mut Self) -> *mut c_void {
        unsafe { (*this).manager_ctx }
    }
}

/// Everything that a producer allocated.
struct Made<F> {
    managed: F,
    deletions: Count,
    _bytes: Option<Vec<u64>>,
    _shape: Option<Vec<i64>>,
    _strides: Option<Vec<i64>>,
}

impl Recipe {
    /// Makes a tensor that its consumer has to delete. A tensor without a deleter is never freed,
    /// because that is what the missing deleter means.
    pub fn make<F: TestForm>(&self) -> (*mut F, Count) {
        let mut bytes = self.bytes.as_ref().map(|bytes| {
            let words = bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            });
            words.collect::<Vec<_>>()
        });
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        let null = std::ptr::null_mut();
        let pointer = |numbers: &mut Option<Vec<i64>>| {
            numbers.as_mut().map_or(std::ptr::null_mut(), Vec::as_mut_ptr)
        };
        let data = bytes.as_mut().map_or(null, |bytes| bytes.as_mut_ptr().cast());
        let dl_tensor = DLTensor {
            data: self.data.unwrap_or(data),
            device: self.device,
            ndim: self.ndim.unwrap_or(self.shape.as_ref().map_or(0, |shape| shape.len() as i32)),
            dtype: self.dtype,
            shape: pointer(&mut shape),
            strides: pointer(&mut strides),
            byte_offset: self.byte_offset,
        };
        let deletions = Count::default();
        let layout = std::alloc::Layout::new::<Made<F>>();
        let made = unsafe { std::alloc::alloc(layout) }.cast::<Made<F>>();
        let managed = F::make(self, dl_tensor, made.cast());
        let whole = Made {
            managed,
            deletions: deletions.clone(),
            _bytes: bytes,
            _shape: shape,
            _strides: strides,
        };
        unsafe { made.write(whole) };
        (unsafe { &raw mut (*made).managed }, deletions)
    }
}

unsafe extern "C" fn delete<F: TestForm>(managed: *mut F) {
    let made = F::context(managed).cast::<Made<F>>();
    unsafe { made.read() }.deletions.add();
    unsafe { std::alloc::dealloc(made.cast(), std::alloc::Layout::new::<Made<F>>()) };
}

/// Frees a tensor that has no deleter.
///
/// # Safety
/// Nobody uses the tensor any more.
pub unsafe fn free_without_deleter<F: TestForm>(managed: *mut F) {
    unsafe { delete::<F>(managed) };
}
