//! Memory that other processes can open: [`Sharing`], which a driver implements beside
//! [`Driver`](super::driver::Driver), and what [`Device`] makes of it.
//!
//! Most memory belongs to one process for good. Memory of another process can only be opened where
//! both sides planned for that: the maker allocates the memory as shareable, exports a
//! [`MemoryHandle`], and sends the handle to the other process, which opens it. Here are the
//! operations on memory alone. Which array lies in the memory, and when the other process has
//! finished with it, is told by messages: see the crate `arrow-device-share`.

use std::any::Any;
#[cfg(not(any(unix, windows)))]
use std::convert::Infallible as PlatformDescriptor;
use std::fmt;
#[cfg(unix)]
use std::os::fd::OwnedFd as PlatformDescriptor;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as PlatformDescriptor;
use std::sync::Arc;

use super::driver::Raw;
use super::{Allocator, Buffer, Device, Memory, Owner, Queue};
use crate::{Error, ErrorKind, Result};

/// What carries the right to a piece of memory from one process to another: a file descriptor, on
/// Windows a handle, elsewhere nothing.
pub type Descriptor = PlatformDescriptor;

/// The right to open one allocation in another process.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MemoryHandle {
    /// The descriptor, where the runtime has one. Whoever has it can open the memory, and the
    /// memory stays as long as a descriptor of it is open. A driver that has a descriptor of the
    /// memory shares it with the handle, so that nothing is duplicated to send it.
    pub descriptor: Option<Arc<Descriptor>>,
    /// What the runtime needs besides the descriptor, or instead of one. Not longer than
    /// [`MAX_NOTE`](Self::MAX_NOTE).
    pub note: Vec<u8>,
    /// Whether this process wants to export the memory again once it is open, which may cost a
    /// descriptor as long as the memory is open.
    pub is_passed_on: bool,
}

impl MemoryHandle {
    /// The longest [`note`](Self::note) in bytes.
    pub const MAX_NOTE: usize = 256;

    /// A handle that is a descriptor and nothing else.
    pub fn from_descriptor(descriptor: impl Into<Arc<Descriptor>>) -> Self {
        Self { descriptor: Some(descriptor.into()), ..Self::default() }
    }

    /// The descriptor, for a runtime that takes one for its own. It is duplicated where something
    /// else has it too.
    #[cfg(any(unix, windows))]
    pub fn take_descriptor(&mut self) -> std::io::Result<Option<Descriptor>> {
        let Some(descriptor) = self.descriptor.take() else { return Ok(None) };
        Arc::try_unwrap(descriptor).or_else(|shared| shared.try_clone()).map(Some)
    }

    /// This handle, with a note for the runtime that opens it.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<Vec<u8>>) -> Self {
        self.note = note.into();
        self
    }

    /// This handle, for a process that wants to [export](Sharing::export) the memory again.
    #[must_use]
    pub fn passed_on(mut self) -> Self {
        self.is_passed_on = true;
        self
    }
}

/// Which memory can be opened where: memory of a device can be opened by another process through a
/// device of the same domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharingDomain {
    /// How memory is handed over, such as `memfd` or `vulkan opaque fd`. At most 32 bytes of ASCII.
    pub way: &'static str,
    /// The identity of the device and of the driver's build, as the runtime tells it. The identity
    /// is the same in every process. The device's number need not be a part of it.
    pub device: [u8; 16],
}

impl SharingDomain {
    /// What a driver answers that shares no memory.
    pub const NONE: Self = Self { way: "none", device: [0; 16] };

    /// A domain whose device has more to tell than 16 bytes, such as a number of its own and one of
    /// the driver's build.
    ///
    /// The device of the domain is a hash of the bytes of all parts, one after the other (FNV-1a of
    /// 128 bits). Different bytes have one hash by a chance of one in 2^128, unless somebody chose
    /// them to deceive: but a process that wants to deceive can as well announce the domain of
    /// another one. The hash does not tell where a part ends: `ab` and `c` have the hash of `a` and
    /// `bc`.
    pub fn of(way: &'static str, parts: &[&[u8]]) -> Self {
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        let device = parts.iter().copied().flatten().fold(BASIS, step).to_le_bytes();
        Self { way, device }
    }
}

/// What becomes of shareable memory after it was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedUse {
    /// It is filled once, shared, and freed.
    Once,
    /// An allocator may give the memory out again, or give out another part of it: the memory is
    /// written again.
    Again,
}

/// Where bytes lie in an allocation that can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPlace {
    /// The allocation, as `allocate` or `open` gave it.
    pub memory: Raw<Memory>,
    /// How many bytes of the allocation come before the place.
    pub offset: u64,
    /// The length of the allocation.
    pub len: u64,
    /// Whether [`Sharing::export`] can fix the bytes: the platform can, and the memory was
    /// allocated for [one use](SharedUse::Once).
    pub can_be_fixed: bool,
}

/// Memory that another process exported, as [`Sharing::open`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct OpenedMemory {
    /// The memory, as the device names memory.
    pub memory: Raw<Memory>,
    /// Whether no process can write to the memory any more, whatever it does.
    pub is_fixed: bool,
}

/// How memory of a device is opened by other processes. See
/// [`Driver::sharing`](super::driver::Driver::sharing).
///
/// # Safety
/// Safe code relies on these obligations, which `docs/safety.md` has in full, and on DRV-1, DRV-2,
/// DRV-3 and DRV-5 for each of these operations.
///
/// * DRV-30: What `allocate` gives is what [`Driver::allocate`](super::driver::Driver::allocate)
///   would give (DRV-9, DRV-10), until `close`. `find` names the allocation of `allocate`, or the
///   fixed memory of `open` that is passed on, that a place lies in, and no other.
/// * DRV-31: What `open` gives holds at least `len` bytes until `close`, and they can be read
///   whatever the other process does. The answer that memory is fixed is true.
pub unsafe trait Sharing: fmt::Debug + Send + Sync {
    /// The domain of the device.
    fn domain(&self) -> SharingDomain;

    /// Whether processes that share memory in this domain have to trust each other, because the
    /// runtime takes every descriptor for what it is said to be, or because whoever has a
    /// descriptor can write to the memory. The answer is always the same.
    ///
    /// Then [`open`](Self::open) is called only for handles that [`export`](Self::export) of the
    /// other process gave, and what `export` gives is only sent to processes that do not write to
    /// the memory.
    fn needs_trust(&self) -> bool {
        false
    }

    /// Allocates memory that can be exported. Where a queue is named and the runtime can, the
    /// memory is ready in the order of that queue.
    ///
    /// # Safety
    /// UNS-22; `len` is not 0.
    unsafe fn allocate(
        &self,
        len: u64,
        queue: Option<Raw<Queue>>,
        used: SharedUse,
    ) -> Result<Raw<Memory>>;

    /// The allocation that a place lies in, which is an address or a handle. `None` for memory that
    /// neither `allocate` gave nor `open` to be exported again.
    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace>;

    /// A handle by which another process opens an allocation.
    ///
    /// With `fixed`, nobody can write to the memory from now on, in any process, until it is gone.
    /// Where [`find`](Self::find) does not say that it can be fixed, this is an error of the kind
    /// [`ErrorKind::Unsupported`].
    ///
    /// # Safety
    /// UNS-22; `memory` is one that `find` named and that is still there. With `fixed`, nobody
    /// writes to the memory any more.
    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle>;

    /// Opens memory that another process exported, to be read. The handle may be anything that a
    /// peer made up: what is not memory of this domain, or has fewer bytes than `len`, is an error.
    ///
    /// Where the memory is fixed and the handle [is passed on](MemoryHandle::is_passed_on), a
    /// driver may answer [`find`](Self::find) and [`export`](Self::export) for it as for memory of
    /// `allocate`. Memory that is not fixed is not exported again: the process that made it may
    /// write there as soon as this process has ended, while a third one reads.
    ///
    /// # Safety
    /// UNS-22; `len` is not 0. Where the domain [needs trust](Self::needs_trust), `export` of the
    /// other process gave the handle for an allocation of `len` bytes.
    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory>;

    /// Gives back memory of `allocate` or of `open`, in this process. Nothing that was submitted
    /// uses the memory any more.
    ///
    /// # Safety
    /// UNS-22; `memory` is one that `allocate` or `open` gave for this `len`, nothing that was
    /// submitted uses it, and it is not used after this.
    unsafe fn close(&self, memory: Raw<Memory>, len: u64);
}

/// The allocator of [`Device::shareable`].
enum Shareable {
    /// The driver's shareable memory.
    FromDriver(SharedUse),
    /// Another allocator, which divides or recycles the driver's shareable memory.
    By(Arc<dyn Allocator>),
}

impl Allocator for Shareable {
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory> {
        match self {
            Self::FromDriver(used) => device.allocate_shareable(len, queue, *used),
            Self::By(allocator) => {
                let device = device.with_allocator(Self::FromDriver(SharedUse::Again));
                allocator.allocate(&device, len, queue)
            }
        }
    }
}

/// Whether a device with this allocator has shareable memory already.
fn is_shareable(allocator: &dyn Allocator) -> bool {
    let allocator: &dyn Any = allocator;
    allocator.is::<Owner<Shareable>>()
}

/// A buffer in memory that another process exported: see [`Device::open_shared`].
#[derive(Debug)]
pub struct OpenedBuffer {
    /// The bytes.
    pub buffer: Buffer,
    /// Whether no process can write to the memory any more, whatever it does.
    pub is_fixed: bool,
}

impl Device {
    /// A handle of this device whose memory other processes can open. The handle, the queues that
    /// it opens, and copies to these queues take their memory from the driver's
    /// [`Sharing`](super::driver::Sharing). An allocator that this device has, such as a
    /// [`Recycler`](crate::Recycler), stays in use, and takes shareable memory. A device whose
    /// memory is shareable already is returned as it is.
    ///
    /// Without an allocator, memory can be fixed when it is shared: then nobody can write to the
    /// memory any more, and this process cannot either. Memory that an allocator gives out again is
    /// not fixed, and a process that has opened such memory can read what is written there later.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the device cannot share memory.
    ///
    /// ```
    /// use arrow_device::{Device, ErrorKind};
    ///
    /// match Device::host().shareable() {
    ///     Ok(device) => assert!(device.allocate(100)?.len() >= 100),
    ///     Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    /// }
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn shareable(&self) -> Result<Self> {
        self.require_sharing()?;
        let shareable = match self.allocator() {
            Some(allocator) if is_shareable(&**allocator) => return Ok(self.clone()),
            Some(allocator) => Shareable::By(allocator.clone()),
            None => Shareable::FromDriver(SharedUse::Once),
        };
        Ok(self.with_allocator(shareable))
    }

    /// The domain in which memory of the device can be shared with other processes. `None` where
    /// memory of the device cannot be shared.
    pub fn sharing_domain(&self) -> Option<SharingDomain> {
        self.driver().sharing().map(Sharing::domain)
    }

    /// Whether processes that share memory of the device have to trust each other. See
    /// [`Sharing::needs_trust`].
    pub fn sharing_needs_trust(&self) -> bool {
        self.driver().sharing().is_some_and(Sharing::needs_trust)
    }

    fn require_sharing(&self) -> Result<&dyn Sharing> {
        self.driver().sharing().ok_or_else(|| {
            let message = "memory of this device cannot be opened by other processes";
            Error::new(ErrorKind::Unsupported, message).on_device(self.id())
        })
    }

    /// The allocation that a place on this device lies in, if other processes can open it.
    pub fn find_shared(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        self.driver().sharing()?.find(place)
    }

    /// A handle by which another process opens an allocation of this device. See
    /// [`Sharing::export`].
    ///
    /// # Safety
    /// UNS-36: `memory` is an allocation that [`find_shared`](Self::find_shared) named and that is
    /// still there. With `fixed`, nobody writes to the memory any more. Where sharing
    /// [needs trust](Self::sharing_needs_trust), no process that gets the handle writes to the
    /// memory.
    pub unsafe fn export_shared(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        let sharing = self.require_sharing()?;
        // SAFETY: UNS-22: the driver named the allocation, which is still there, and with `fixed`
        // nobody writes to it, as the caller promises (UNS-36).
        unsafe { sharing.export(memory, fixed) }
    }

    /// Opens memory that another process exported from a device of the same domain. `owner` is
    /// dropped when nothing here uses the memory any more, after the memory was closed, possibly on
    /// another thread.
    ///
    /// # Safety
    /// UNS-37: if the result is not [fixed](OpenedBuffer::is_fixed), nobody writes to the bytes as
    /// long as anything that was made of the buffer lives, or the buffer is dropped at once. Where
    /// sharing [needs trust](Self::sharing_needs_trust), `export_shared` of the other process gave
    /// the handle for an allocation of `len` bytes.
    pub unsafe fn open_shared(
        &self,
        handle: MemoryHandle,
        len: u64,
        owner: impl Send + Sync + 'static,
    ) -> Result<OpenedBuffer> {
        if len == 0 {
            return Ok(OpenedBuffer { buffer: Buffer::null(self.id()), is_fixed: true });
        }
        let sharing = self.require_sharing()?;
        // SAFETY: UNS-22: `len` is not 0. Where the domain needs trust, the handle is one of an
        // export, as the caller promises (UNS-37).
        let opened = unsafe { sharing.open(handle, len) }?;
        let owner = Box::new(Owner::on(self.id(), owner));
        let memory = Memory::opened(self, opened.memory, len, owner);
        Ok(OpenedBuffer { buffer: memory.into_buffer(), is_fixed: opened.is_fixed })
    }

    /// Memory that other processes can open, from the driver.
    fn allocate_shareable(
        &self,
        len: u64,
        queue: Option<&Queue>,
        used: SharedUse,
    ) -> Result<Memory> {
        let sharing = self.require_sharing()?;
        // SAFETY: UNS-22: a queue that is named is alive in its owner and belongs to this device;
        // `len` is not 0, because allocators are not asked for empty memory.
        let raw = unsafe { sharing.allocate(len, queue.map(Queue::raw), used) }?;
        Ok(Memory::shareable(self, raw, len, queue, used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_and_a_driver_are_told_from_all_others() {
        let [one, other] = [[1; 16], [2; 16]];
        let all = [[one, other], [other, one], [one, one], [other, other], [[0; 16]; 2]];
        let domain = |ids: &[[u8; 16]; 2]| SharingDomain::of("way", &[&ids[0], &ids[1]]);
        for (index, ids) in all.iter().enumerate() {
            assert_eq!(domain(ids), domain(&ids.clone()));
            assert!(all.iter().skip(index + 1).all(|more| domain(more) != domain(ids)));
        }
    }

    #[test]
    fn parts_of_different_lengths_are_told_from_others() {
        let one: [&[u8]; 3] = [&[1; 16], b"0000:01:00.0", &[0, 1]];
        for (part, other) in [&[2; 16][..], b"0000:02:00.0", &[0, 2]].into_iter().enumerate() {
            let mut changed = one;
            changed[part] = other;
            assert_ne!(SharingDomain::of("way", &one), SharingDomain::of("way", &changed));
        }
    }

    /// The hash is a part of the protocol: the number that FNV-1a has for one letter.
    #[test]
    fn the_hash_is_that_of_the_protocol() {
        let expected = 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964_u128;
        assert_eq!(SharingDomain::of("way", &[b"a"]).device, expected.to_le_bytes());
    }
}
