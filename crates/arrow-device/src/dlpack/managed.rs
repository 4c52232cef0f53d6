//! [`Managed`]: an owned tensor in DLPack's C form. Dropping it calls the deleter.
//!
//! Both forms are read here. A received tensor is never written to: some producers hand the same
//! shape to several consumers.

use std::ffi::c_void;
use std::fmt;
use std::mem::{ManuallyDrop, offset_of};
use std::ptr::{self, NonNull};

use super::export::{LEGACY_DELETERS, VERSIONED_DELETERS};
use crate::abi::dlpack::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION,
    DLPackVersion, DLTensor,
};
use crate::device::nesting;
use crate::{Error, ErrorKind, Result};

/// One of DLPack's two forms: [`DLManagedTensorVersioned`], and the older [`DLManagedTensor`],
/// which was used before version 1.0.
pub trait Form: sealed::Sealed {}

impl Form for DLManagedTensor {}
impl Form for DLManagedTensorVersioned {}

pub(crate) type Deleter<F> = Option<unsafe extern "C" fn(*mut F)>;

pub(crate) mod sealed {
    use super::{DLTensor, Deleter, Exported, Form, Managed, c_void};

    /// The deleters of exported tensors in one form.
    #[derive(Debug)]
    pub struct Deleters<F> {
        /// The deleter of a tensor whose consumer's work is done when it calls the deleter.
        pub(in crate::dlpack) of_finished: unsafe extern "C" fn(*mut F),
        /// The deleter of a tensor whose consumer works on a queue.
        pub(in crate::dlpack) on_queue: unsafe extern "C" fn(*mut F),
    }

    pub trait Sealed: Sized + 'static {
        /// Whether the form has a version and flags.
        const IS_VERSIONED: bool;
        const TENSOR: usize;
        const DELETER: usize;
        const CONTEXT: usize;
        /// The offsets of the version and the flags, in a form that has them.
        const VERSION: Option<(usize, usize)>;

        /// The deleters of tensors that are exported here. They are statics, because each use of a
        /// function's name may give another address.
        fn deleters() -> &'static Deleters<Self>
        where
            Self: Form;

        fn new(tensor: DLTensor, flags: u64, context: *mut c_void, deleter: Deleter<Self>) -> Self;

        /// This tensor as an [`Exported`], which can have either form.
        fn exported(managed: Managed<Self>) -> Exported
        where
            Self: Form;
    }
}

impl sealed::Sealed for DLManagedTensor {
    const IS_VERSIONED: bool = false;
    const TENSOR: usize = offset_of!(Self, dl_tensor);
    const DELETER: usize = offset_of!(Self, deleter);
    const CONTEXT: usize = offset_of!(Self, manager_ctx);
    const VERSION: Option<(usize, usize)> = None;

    fn deleters() -> &'static sealed::Deleters<Self> {
        &LEGACY_DELETERS
    }

    fn new(dl_tensor: DLTensor, _: u64, manager_ctx: *mut c_void, deleter: Deleter<Self>) -> Self {
        Self { dl_tensor, manager_ctx, deleter }
    }

    fn exported(managed: Managed<Self>) -> Exported {
        Exported::Legacy(managed)
    }
}

impl sealed::Sealed for DLManagedTensorVersioned {
    const IS_VERSIONED: bool = true;
    const TENSOR: usize = offset_of!(Self, dl_tensor);
    const DELETER: usize = offset_of!(Self, deleter);
    const CONTEXT: usize = offset_of!(Self, manager_ctx);
    const VERSION: Option<(usize, usize)> =
        Some((offset_of!(Self, version), offset_of!(Self, flags)));

    fn deleters() -> &'static sealed::Deleters<Self> {
        &VERSIONED_DELETERS
    }

    fn new(
        dl_tensor: DLTensor,
        flags: u64,
        manager_ctx: *mut c_void,
        deleter: Deleter<Self>,
    ) -> Self {
        let version = DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION };
        Self { version, manager_ctx, deleter, flags, dl_tensor }
    }

    fn exported(managed: Managed<Self>) -> Exported {
        Exported::Versioned(managed)
    }
}

/// A tensor in C form that nobody else owns. Dropping it calls its deleter.
///
/// [`Tensor::export`](super::Tensor::export) makes one, and [`into_raw`](Self::into_raw) hands it
/// over. A tensor in a capsule that nobody consumed is taken back with
/// [`from_raw`](Self::from_raw), and dropped.
pub struct Managed<F: Form> {
    raw: NonNull<F>,
}

// SAFETY: DLPack lets a consumer use and delete a tensor on any thread (UNS-23), and what is
// exported here is `Send + Sync`.
unsafe impl<F: Form> Send for Managed<F> {}
// SAFETY: nothing is written through a shared tensor, and DLPack lets a consumer read it on any
// thread.
unsafe impl<F: Form> Sync for Managed<F> {}

impl<F: Form> Managed<F> {
    /// Takes ownership of a tensor. A null pointer is refused.
    ///
    /// # Safety
    /// `tensor` is null, or points to a tensor that a producer handed over and that nobody else
    /// will delete. Its `deleter`, if there is one, can be called once on any thread (UNS-23).
    pub unsafe fn from_raw(tensor: *mut F) -> Result<Self> {
        NonNull::new(tensor).map(|raw| Self { raw }).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "no tensor: a null pointer").during("import")
        })
    }

    /// Gives ownership of the tensor away. The new owner of the pointer calls the deleter.
    pub fn into_raw(self) -> *mut F {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// The address of the tensor. This value keeps the ownership.
    pub fn as_ptr(&self) -> *const F {
        self.raw.as_ptr()
    }

    /// The `manager_ctx`, if the tensor has this deleter. With it, the maker of a tensor recognises
    /// it. Keep the deleter's address in a static, because each use of a function's name may give
    /// another address.
    pub fn context_of(&self, deleter: unsafe extern "C" fn(*mut F)) -> Option<*mut c_void> {
        let (found, context) = self.deleter();
        found.filter(|found| ptr::fn_addr_eq(*found, deleter)).map(|_| context)
    }

    /// The version; `None` in the older form.
    pub fn version(&self) -> Option<DLPackVersion> {
        let (version, _) = F::VERSION?;
        Some(self.read(version))
    }

    pub(crate) fn flags(&self) -> u64 {
        F::VERSION.map_or(0, |(_, flags)| self.read(flags))
    }

    /// A copy of the tensor. Only for a version that is known.
    pub(crate) fn tensor(&self) -> DLTensor {
        self.read(F::TENSOR)
    }

    /// The address of the tensor, which need not be aligned. Only for a version that is known.
    #[inline(always)]
    pub(crate) fn tensor_at(&self) -> *const DLTensor {
        self.raw.as_ptr().wrapping_byte_add(F::TENSOR).cast_const().cast()
    }

    /// The deleter and the context, which every version has.
    pub(super) fn deleter(&self) -> (Deleter<F>, *mut c_void) {
        (self.read(F::DELETER), self.read(F::CONTEXT))
    }

    /// Reads a field of `F` that lies at this offset.
    fn read<T>(&self, offset: usize) -> T {
        let field = self.raw.as_ptr().wrapping_byte_add(offset).cast::<T>();
        // SAFETY: the callers above name fields of `F` with their types, all of integers and
        // pointers; `from_raw`'s caller promised that a tensor is there. `dlpack.h`: the fields up
        // to `flags` keep their place in every version, and the rest is only read of a version that
        // is known. The read needs no alignment.
        unsafe { field.read_unaligned() }
    }
}

impl<F: Form> Drop for Managed<F> {
    fn drop(&mut self) {
        if let (Some(deleter), _) = self.deleter() {
            let mut deletion = ManuallyDrop::new(Deletion { tensor: self.raw, deleter });
            // SAFETY: dropped once, here.
            unsafe { nesting::drop_bounded(&mut deletion) }
        }
    }
}

/// The end of a tensor, which is all that is left of it. The owner of the tensor's memory may be
/// another tensor of this kind.
struct Deletion<F: Form> {
    tensor: NonNull<F>,
    deleter: unsafe extern "C" fn(*mut F),
}

impl<F: Form> Drop for Deletion<F> {
    fn drop(&mut self) {
        // SAFETY: `dlpack.h`: "Destructor - this should be called to destruct the manager_ctx"; it
        // may be called once, on any thread, and with the pointer that was handed over. The
        // `Managed` that made this was the only owner, and is gone.
        unsafe { (self.deleter)(self.tensor.as_ptr()) }
    }
}

impl<F: Form> fmt::Debug for Managed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if F::IS_VERSIONED { "versioned" } else { "legacy" };
        write!(f, "Managed({form})")
    }
}

/// A tensor in the form that a consumer understands: see
/// [`Tensor::export_for`](super::Tensor::export_for).
#[derive(Debug)]
pub enum Exported {
    /// The form of version 1.0 and later.
    Versioned(Managed<DLManagedTensorVersioned>),
    /// The older form.
    Legacy(Managed<DLManagedTensor>),
}
