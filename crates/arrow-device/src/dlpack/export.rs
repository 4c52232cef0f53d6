//! Exports tensors to C.
//!
//! One block holds the struct, its shape and strides, and a share of the memory. The deleter gives
//! all of it back.
//!
//! A deleter has no argument for a stream. PyTorch and CuPy call it when their object dies, and do
//! not wait for work that they have submitted. So the consumer's queue is kept with the share, and
//! the deleter notes a use of the memory on that queue: the memory is released after the queue has
//! passed the work.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use super::managed::{Exported, Form, Managed, sealed::Deleters};
use super::tensor::Origin;
use super::{CopyPolicy, Order, Tensor, device};
use crate::abi::dlpack::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLPACK_MAJOR_VERSION, DLTensor,
};
use crate::device::Arrival;
use crate::device::deferred::QueueUse;
use crate::device::driver::Addressing;
use crate::ffi::guard;
use crate::pool::block::{self, Block};
use crate::{Array, Device, DeviceType, Error, ErrorKind, Queue, Result};

impl Tensor {
    /// Hands the tensor over in one of DLPack's forms.
    ///
    /// The memory is kept until the consumer calls the deleter. On a device it is kept until the
    /// consumer's queue has passed what was submitted before that call. The deleter waits for
    /// nothing. Apart from a copy of the data, one block is allocated or recycled.
    ///
    /// Shared memory is flagged as read-only. Memory that was copied, and that nobody else in this
    /// process has, is flagged as copied, and the consumer may write to it. The older form
    /// has no flags, so read-only memory is copied for it. If `copying` is
    /// [`Never`](CopyPolicy::Never), the export is then [`Unsupported`](ErrorKind::Unsupported).
    /// See also [`export_legacy_shared`](Self::export_legacy_shared).
    ///
    /// `order` says how the consumer knows that the data is complete: [`Order::On`] makes its queue
    /// wait, and no host blocks; [`Order::Host`] waits here, and is
    /// [`DeviceMissing`](ErrorKind::DeviceMissing) where the data may be ready in the order of a
    /// queue ([`QueueOrder`](crate::driver::Readiness::QueueOrder)) of a device that is not open:
    /// it came without an event as an array, not as a tensor. A queue of another runtime that is
    /// open by the id of the tensor's device is [`NotReachable`](ErrorKind::NotReachable).
    ///
    /// `order` also says on which queue the consumer works. [`Order::On`] names the queue, which is
    /// kept open until the deleter was called (UNS-20, UNS-34). Otherwise the consumer is taken to
    /// work on the default queue of the device, if the runtime has one
    /// ([`default_queues`](crate::driver::Properties::default_queues)) and the device is open.
    /// Where there is no such queue, and for host memory without a queue of a device, the call of
    /// the deleter says that the consumer's work is done.
    pub fn export<F: Form>(self, order: Order<'_>, copying: CopyPolicy) -> Result<Managed<F>> {
        let must_copy = !F::IS_VERSIONED && self.origin() != Origin::Writable && !self.is_own();
        match copying {
            CopyPolicy::Always => self.copied_for(order)?.write_out(order, copying),
            CopyPolicy::IfNeeded if must_copy => self.copied_for(order)?.write_out(order, copying),
            CopyPolicy::Never if must_copy => {
                let message = "the older form cannot say that memory is read-only; ask for version 1, or allow a copy";
                let error = Error::new(ErrorKind::Unsupported, message).on_device(self.device());
                Err(error.during("export"))
            }
            _ => self.write_out(order, copying),
        }
    }

    /// [`export`](Self::export) in the newest form that a consumer understands. `max_version` is
    /// the consumer's own statement. A consumer without a statement, or with a major version of 0,
    /// gets the older form.
    pub fn export_for(
        self,
        max_version: Option<(u32, u32)>,
        order: Order<'_>,
        copying: CopyPolicy,
    ) -> Result<Exported> {
        match max_version {
            Some((major, _)) if major >= DLPACK_MAJOR_VERSION => {
                self.export(order, copying).map(Exported::Versioned)
            }
            _ => self.export(order, copying).map(Exported::Legacy),
        }
    }

    /// Exports read-only memory in the older form, which has no flag for it.
    ///
    /// # Safety
    /// The consumer does not write to the memory, nor does anybody else, as long as the tensor, or
    /// anything made of it, lives (UNS-26).
    pub unsafe fn export_legacy_shared(self, order: Order<'_>) -> Result<Managed<DLManagedTensor>> {
        self.write_out(order, CopyPolicy::Never)
    }

    /// Whether the memory was copied for this tensor, and nobody else here has it or still reads
    /// it.
    fn is_own(&self) -> bool {
        self.origin() == Origin::Own && self.is_alone()
    }

    /// A copy, made on the consumer's queue if there is one.
    fn copied_for(&self, order: Order<'_>) -> Result<Self> {
        match order {
            Order::On(queue) => self.copy_for_one(queue),
            Order::Host | Order::Unordered => self.copy_for_one(&self.memory().any_queue()?),
        }
    }

    #[inline]
    fn settle(&self, order: Order<'_>) -> Result<()> {
        // Memory that was never an array was ready when it was imported.
        let Some(memory) = self.shared_memory() else { return Ok(()) };
        if matches!(order, Order::Host) && memory.tree().has_unknown_order() {
            let message =
                "the data came without an event from a device that is not open; open the device";
            return Err(Error::new(ErrorKind::DeviceMissing, message).on_device(self.device()));
        }
        // Data that is ready needs no queue that reaches it.
        if memory.tree().waits_for_nothing() {
            return Ok(());
        }
        match order {
            Order::On(queue) => memory.tree().order(queue),
            Order::Host => memory.wait(),
            Order::Unordered => Ok(()),
        }
    }

    /// An error for a queue of another runtime whose device has the id of the tensor's device. The
    /// consumer would take the memory for memory of its own runtime.
    #[cold]
    fn require_runtime(&self, order: Order<'_>) -> Result<()> {
        match order {
            Order::On(queue) if queue.device().id() == self.device() => {
                let reached = self.memory().tree().require_reach(queue);
                reached.map_err(|error| error.during("export"))
            }
            _ => Ok(()),
        }
    }

    fn write_out<F: Form>(self, order: Order<'_>, copying: CopyPolicy) -> Result<Managed<F>> {
        let is_on_host = self.device().device_type == DeviceType::CPU;
        match order {
            Order::Host | Order::Unordered if is_on_host => self.write_for(order, FinishedUser),
            _ if copying == CopyPolicy::IfNeeded && self.lacks_object() => {
                let copied = self.copied_for(order)?;
                copied.write_for_device(order)
            }
            _ => self.write_for_device(order),
        }
    }

    /// Whether DLPack names memory of the tensor's device by an object, and none is known for this
    /// memory.
    fn lacks_object(&self) -> bool {
        self.device().device_type == DeviceType::METAL && self.lacks_metal_object()
    }

    #[cold]
    fn lacks_metal_object(&self) -> bool {
        let base = self.base().as_ptr();
        if self.is_empty() || base.is_null() {
            return false;
        }
        let start = usize::try_from(self.start()).unwrap_or(usize::MAX);
        self.memory().open_device().is_ok_and(|opened| {
            // SAFETY: UNS-22: the memory is the device's, and this tensor keeps it.
            let known =
                unsafe { device::knows_metal_object(&opened, base.wrapping_byte_add(start)) };
            matches!(known, Ok(false))
        })
    }

    #[inline(never)]
    fn write_for_device<F: Form>(self, order: Order<'_>) -> Result<Managed<F>> {
        if Device::ids_are_ambiguous() {
            self.require_runtime(order)?;
        }
        let tree = self.memory().tree();
        tree.check_process()?;
        tree.tell_of_export();
        let queue = match order {
            Order::On(queue) => Some(queue.on_any_thread()),
            // Where the device is not open, its queues cannot be asked for.
            Order::Host | Order::Unordered => {
                self.memory().open_device().ok().and_then(|device| device.default_queue())
            }
        };
        match queue.filter(|queue| !queue.is_the_hosts()) {
            Some(queue) => self.write_for(order, QueueUser(queue)),
            None => self.write_for(order, FinishedUser),
        }
    }

    #[inline]
    fn write_for<F: Form, C: TensorUser>(
        self,
        order: Order<'_>,
        consumer: C,
    ) -> Result<Managed<F>> {
        let device = self.device();
        let during = |error: Error| error.during("export").on_device_if_none(device);
        let c_device = device::dl_device(device).map_err(during)?;
        let mut flags = match self.origin() {
            Origin::Own if self.is_alone() => DLPACK_FLAG_BITMASK_IS_COPIED,
            Origin::Writable => 0,
            Origin::Own | Origin::Shared => DLPACK_FLAG_BITMASK_READ_ONLY,
        };
        if self.is_padded() {
            flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
        }
        let base = self.base().as_ptr();
        let (data, byte_offset) = match self.addressing() {
            _ if self.is_empty() || base.is_null() => (ptr::null_mut(), 0),
            _ if device.device_type == DeviceType::METAL => {
                let start = usize::try_from(self.start()).unwrap_or(usize::MAX);
                let opened = self.memory().open_device().map_err(during)?;
                // SAFETY: UNS-22: the memory is the device's, and this tensor keeps it.
                unsafe { device::metal_object(&opened, base.wrapping_byte_add(start)) }
                    .map_err(during)?
            }
            Addressing::Handle => (base, self.start()),
            Addressing::Address => {
                let start = usize::try_from(self.start()).unwrap_or(usize::MAX);
                (base.wrapping_byte_add(start), 0)
            }
        };
        let (lengths, distances) = (self.shape(), self.strides());
        let ndim = lengths.len();
        let numbers = size_of::<ManagedBlock<F, C>>().next_multiple_of(align_of::<i64>());
        let block = Block::new(numbers + 2 * ndim * size_of::<i64>()).map_err(during)?;
        // If the queue waits for the event of a producer, the consumer has to keep the tensor. So
        // nothing may fail after this.
        self.settle(order).map_err(during)?;
        let block = block.into_bytes().as_ptr();
        let shape = block.wrapping_add(numbers).cast::<i64>();
        let strides = shape.wrapping_add(ndim);
        if let ([length], [distance]) = (lengths, distances) {
            // For one dimension, two stores are faster than two calls of a copying function.
            // SAFETY: the block has room for a number here, behind the struct; it is aligned to 16,
            // and `numbers` is a multiple of what a number is aligned to.
            unsafe { shape.write(*length) };
            // SAFETY: the block has room for a second number here, behind the first one, and is
            // aligned for it.
            unsafe { strides.write(*distance) };
        } else {
            for (to, from) in [(shape, lengths), (strides, distances)] {
                // SAFETY: the block has room for `ndim` numbers at both places, one behind the
                // other, and is aligned for them; it is new, so that nothing overlaps.
                unsafe { to.copy_from_nonoverlapping(from.as_ptr(), ndim) };
            }
        }
        let dl_tensor = DLTensor {
            data,
            device: c_device,
            // At most 64.
            ndim: ndim as i32,
            dtype: self.dtype().to_c(),
            shape,
            strides,
            byte_offset,
        };
        // The context points to the whole block. A consumer may call the deleter with a pointer
        // that is valid for the struct only.
        let context = block.cast::<c_void>();
        let managed = F::new(dl_tensor, flags, context, Some(C::deleter::<F>()));
        let whole = ManagedBlock { managed, owner: self, consumer };
        // SAFETY: the block is as large as this and aligned to 16, and nobody else has it.
        unsafe { block.cast::<ManagedBlock<F, C>>().write(whole) };
        // SAFETY: a tensor that was just made, with a deleter that can be called once on any
        // thread.
        unsafe { Managed::from_raw(block.cast::<F>()) }
    }
}

impl Array {
    /// A queue for copies, where the caller named none.
    pub(crate) fn any_queue(&self) -> Result<Queue> {
        if self.device().device_type == DeviceType::CPU {
            return Ok(Queue::host());
        }
        self.open_device()?.open_queue()
    }
}

/// The consumer of an exported tensor, who uses the memory until the deleter is called.
trait TensorUser {
    /// The deleter of tensors that this consumer gets.
    fn deleter<F: Form>() -> unsafe extern "C" fn(*mut F);

    /// Notes a use of the memory by the work that the consumer has submitted by now.
    fn note_use(self, memory: &Tensor);
}

/// A consumer whose work is done when it calls the deleter.
struct FinishedUser;

impl TensorUser for FinishedUser {
    fn deleter<F: Form>() -> unsafe extern "C" fn(*mut F) {
        F::deleters().of_finished
    }

    fn note_use(self, _memory: &Tensor) {}
}

/// A consumer that works on this queue, whichever thread calls the deleter.
struct QueueUser(Queue);

impl TensorUser for QueueUser {
    fn deleter<F: Form>() -> unsafe extern "C" fn(*mut F) {
        F::deleters().on_queue
    }

    fn note_use(self, memory: &Tensor) {
        memory.memory().tree().note_use(QueueUse::until_now(&self.0));
    }
}

/// The block of an exported tensor. Shape and strides follow.
#[repr(C)]
struct ManagedBlock<F, C> {
    managed: F,
    owner: Tensor,
    consumer: C,
}

pub(super) static LEGACY_DELETERS: Deleters<DLManagedTensor> = Deleters {
    of_finished: delete::<DLManagedTensor, FinishedUser>,
    on_queue: delete::<DLManagedTensor, QueueUser>,
};

pub(super) static VERSIONED_DELETERS: Deleters<DLManagedTensorVersioned> = Deleters {
    of_finished: delete::<DLManagedTensorVersioned, FinishedUser>,
    on_queue: delete::<DLManagedTensorVersioned, QueueUser>,
};

impl<F: Form> Managed<F> {
    /// The arrival of the memory, if this library exported the tensor.
    ///
    /// A tensor of ours is known by its deleter, which has one of two addresses. A function at one
    /// of these addresses is that deleter, so the context is what the deleter takes.
    pub(super) fn arrival_before_export(&self) -> Option<Arrival> {
        let (deleter, context) = self.deleter();
        let (deleter, ours) = (deleter?, F::deleters());
        let owner = if ptr::fn_addr_eq(deleter, ours.of_finished) {
            owner_in::<F, FinishedUser>(context)
        } else if ptr::fn_addr_eq(deleter, ours.on_queue) {
            owner_in::<F, QueueUser>(context)
        } else {
            return None;
        };
        // SAFETY: the deleter can be called (UNS-23), so that the context is the block that it
        // would give back; nobody does as long as this owner is there.
        unsafe { owner.as_ref() }.and_then(Tensor::arrival)
    }
}

/// The address of the memory's owner in a block.
fn owner_in<F, C>(context: *mut c_void) -> *const Tensor {
    let owner = context.wrapping_byte_add(offset_of!(ManagedBlock<F, C>, owner));
    if context.is_null() { ptr::null() } else { owner.cast() }
}

/// The deleter of all tensors that are exported here.
extern "C" fn delete<F: Form, C: TensorUser>(managed: *mut F) {
    guard::silent(|| {
        let context = managed.wrapping_byte_add(F::CONTEXT).cast::<*mut c_void>();
        // SAFETY: DLPack's consumers call the deleter once with the pointer that they were given,
        // and change nothing in it.
        let block = unsafe { context.read() };
        let Some(block) = NonNull::new(block.cast::<ManagedBlock<F, C>>()) else { return };
        // SAFETY: `write_out` wrote a whole block there, which nobody else frees.
        let ManagedBlock { owner, consumer, .. } = unsafe { block.read() };
        // SAFETY: the block came from the pool, and all that needs a drop was taken out.
        unsafe { block::give(block.cast()) };
        consumer.note_use(&owner);
        drop(owner);
    });
}
