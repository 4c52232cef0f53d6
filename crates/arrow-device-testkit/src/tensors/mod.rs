//! DLPack's other side, written by hand: a producer whose every field can be wrong, a consumer that
//! believes nothing, and tensors of every type in every layout. What is deleted is counted.

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

/// How often something happened, seen from several places.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicUsize>);

impl Count {
    /// It happened once more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// How often it happened.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until it happened so often: another test's thread may be the one that lets go.
    pub fn reaches(&self, times: usize) -> bool {
        crate::release_until(|| self.get() >= times) && self.get() == times
    }
}

/// An owner of memory that says when it goes.
#[derive(Debug)]
pub struct Counted<T>(pub T, pub Count);

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.1.add();
    }
}

/// All that a producer says, to be changed at will. As it comes it is right: six `int32` on the
/// CPU, in two rows.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Only in the newer form.
    pub version: DLPackVersion,
    /// Only in the newer form.
    pub flags: u64,
    /// Data that is not null.
    pub bytes: Option<Vec<u8>>,
    /// In place of the address of `bytes`, for devices that are not there.
    pub data: Option<*mut c_void>,
    /// The lengths, if they are not null.
    pub shape: Option<Vec<i64>>,
    /// The distances, if they are not null.
    pub strides: Option<Vec<i64>>,
    /// What is said, if not how many lengths there are.
    pub ndim: Option<i32>,
    /// What the elements are.
    pub dtype: DLDataType,
    /// Where they are.
    pub device: DLDevice,
    /// How far behind `data` the first one is.
    pub byte_offset: u64,
    /// Whether there is a deleter.
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
    /// The struct of a recipe.
    fn make(recipe: &Recipe, tensor: DLTensor, context: *mut c_void) -> Self;
    /// What `make` was given.
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

/// What a producer allocated.
struct Made<F> {
    managed: F,
    deletions: Count,
    _bytes: Option<Vec<u64>>,
    _shape: Option<Vec<i64>>,
    _strides: Option<Vec<i64>>,
}

impl Recipe {
    /// A tensor that its consumer has to delete. Without a deleter it is never freed, which is what
    /// that says.
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

/// Frees what has no deleter.
///
/// # Safety
/// Nobody uses the tensor any more.
pub unsafe fn free_without_deleter<F: TestForm>(managed: *mut F) {
    unsafe { delete::<F>(managed) };
}
