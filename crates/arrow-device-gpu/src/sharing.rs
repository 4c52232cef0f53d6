//! Memory that other processes can open: allocations that are mapped by hand, and go to other
//! processes as descriptors.
//!
//! 1. An allocation has a handle. The whole allocation is mapped to address space of its own, and
//!    the device is given access. Sizes are multiples of a unit that the driver tells.
//! 2. An export is a new descriptor, and a note with the size of the allocation.
//! 3. An import compares the note with the size that this device would have allocated for as many
//!    bytes, imports the descriptor, and maps it in the same way. The device gets access for
//!    reading alone where the driver can give that.
//! 4. Access to a device's memory that another device was given does not include memory that is
//!    mapped by hand. So every mapping is given to all devices that reach its device, and a device
//!    that reaches another one later is given all mappings that are there.
//!
//! A descriptor does not show which memory it stands for. The manuals ask for a descriptor that was
//! exported and for a mapping that is no larger than the allocation, and leave open what happens
//! otherwise; there is no function that tells the size of an allocation. Whoever has a descriptor
//! can write to the memory. So processes that share have to trust each other.
//!
//! The older way, handles of 64 bytes for allocations that were not made to be shared
//! (`cuIpcGetMemHandle`, `hipIpcGetMemHandle`), is not used. With it, the end of the exporting
//! process frees memory that others still use, and the manuals leave open what happens then. An
//! allocation here stays until the last descriptor, handle and mapping of it is gone.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::ptr;

use arrow_device::driver::{
    MemoryHandle, OpenedMemory, Raw, SharedPlace, SharedUse, Sharing, SharingDomain,
};
use arrow_device::{Error, ErrorKind, Memory, Queue, Result};

use crate::code::{INVALID_VALUE, NOT_SUPPORTED};
use crate::driver::{Apart, lock};
use crate::functions::AllocationProperties;
use crate::{Api, Code, GpuDriver, Handle, Mapping, MemoryLocation, PoolAccess, ReadyDevice, ok};

/// Memory of a device, and where it lies.
const PINNED: i32 = 1;
const LOCATION_DEVICE: i32 = 1;
/// Handles that are descriptors of POSIX.
const DESCRIPTOR: i32 = 1;
/// The smallest unit of sizes.
const MINIMUM: i32 = 0;
const READ: i32 = 1;
const READ_WRITE: i32 = 3;

/// How a device's memory is shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    domain: SharingDomain,
    /// The unit of sizes.
    unit: usize,
}

/// The mappings of this process, of all devices of a vendor.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// By their addresses.
    mappings: BTreeMap<usize, Mapped>,
    /// Which device's memory is reached by which other device, both by their numbers.
    reached: Vec<(i32, i32)>,
}

/// An allocation that is mapped.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    /// The number of the device.
    device: i32,
    handle: u64,
    /// The size of the allocation and of its mapping.
    size: usize,
    /// How many bytes were asked for.
    len: u64,
    rights: i32,
    /// Whether the memory was allocated here, and not imported.
    is_own: bool,
}

impl Mappings {
    /// The devices that have access to the memory of a device: itself and those that reach it.
    fn access(&self, device: i32, flags: i32) -> Vec<PoolAccess> {
        let others = self.reached.iter().filter(|(of, _)| *of == device).map(|(_, by)| *by);
        let access =
            |id| PoolAccess { location: MemoryLocation { kind: LOCATION_DEVICE, id }, flags };
        std::iter::once(device).chain(others).map(access).collect()
    }

    /// The mapping that an address lies in.
    fn around(&self, address: usize) -> Option<(usize, Mapped)> {
        let (base, mapped) = self.mappings.range(..=address).next_back()?;
        (((address - base) as u64) < mapped.len).then_some((*base, *mapped))
    }
}

fn properties(device: &ReadyDevice) -> AllocationProperties {
    let location = MemoryLocation { kind: LOCATION_DEVICE, id: device.ordinal };
    AllocationProperties { memory: PINNED, handles: DESCRIPTOR, location, ..Default::default() }
}

// SAFETY: `allocate` gives memory of the device that all streams may use, with at least `len`
// bytes, until `close`. `find` knows these allocations by their addresses. `open` imports an
// allocation of the size that the exporter made for `len` bytes, as the note says and the caller
// trusts, and maps all of it: "the memory allocation will be freed when all outstanding mappings to
// the memory are unmapped and when all outstanding references to the handle (including it's
// shareable counterparts) are also released", so the memory stays whatever the exporter does. HIP's
// functions have the same duties, and its descriptors are those of a dma-buf, for which the kernel
// keeps the memory. Nothing is said to be fixed.
unsafe impl<A: Api> Sharing for GpuDriver<A> {
    fn domain(&self) -> SharingDomain {
        self.shares().map_or(SharingDomain::NONE, |shares| shares.domain)
    }

    fn needs_trust(&self) -> bool {
        true
    }

    unsafe fn allocate(
        &self,
        len: u64,
        _queue: Option<Raw<Queue>>,
        _used: SharedUse,
    ) -> Result<Raw<Memory>> {
        const OPERATION: &str = "allocate";
        let (functions, size) = self.whole(len, OPERATION)?;
        let size = size.ok_or_else(|| {
            let error = Error::new(ErrorKind::OutOfMemory, format!("{len} bytes asked for"));
            error.during(OPERATION).on_device(self.id)
        })?;
        let _entered = self.enter(OPERATION)?;
        let _apart = Apart::new(self.api);
        let (mut handle, properties) = (0, properties(&self.device));
        let created = self.or_from_the_pool(|| {
            // SAFETY: a handle is written and one description read; the flags have to be 0.
            unsafe { (functions.create)(&mut handle, size, &properties, 0) }
        });
        self.check(created, OPERATION)?;
        let mapped = Mapped {
            device: self.device.ordinal,
            handle,
            size,
            len,
            rights: READ_WRITE,
            is_own: true,
        };
        self.map_all(functions, mapped).map_err(|code| self.error(code, OPERATION))
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        let mappings = lock(&self.api.loaded().mappings);
        let (base, mapped) = mappings.around(place.bits())?;
        let is_here = mapped.is_own && mapped.device == self.device.ordinal;
        is_here.then(|| SharedPlace {
            memory: Raw::from_bits(base),
            offset: (place.bits() - base) as u64,
            len: mapped.len,
            can_be_fixed: false,
        })
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        const OPERATION: &str = "export memory";
        let refused = |kind, message: String| {
            Err(Error::new(kind, message).during(OPERATION).on_device(self.id))
        };
        if fixed {
            let name = self.api.vendor().name;
            return refused(ErrorKind::Unsupported, format!("memory of {name} cannot be fixed"));
        }
        let found = lock(&self.api.loaded().mappings).mappings.get(&memory.bits()).copied();
        let found = found.filter(|mapped| mapped.is_own && mapped.device == self.device.ordinal);
        let (Some(mapped), Some(functions)) = (found, &self.api.loaded().mapping) else {
            let message = "the memory was not allocated to be shared";
            return refused(ErrorKind::InvalidArgument, message.into());
        };
        let mut descriptor = -1_i32;
        self.call_apart(OPERATION, |_| {
            // SAFETY: the handle is there, because its memory is, as the caller promises (UNS-22).
            // For this type of handle a descriptor is written; the flags have to be 0.
            unsafe {
                (functions.export)((&raw mut descriptor).cast(), mapped.handle, DESCRIPTOR, 0)
            }
        })?;
        if descriptor < 0 {
            return refused(ErrorKind::Driver, "the driver exported no descriptor".into());
        }
        // SAFETY: the descriptor was just made by the driver, for whoever called it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // A copy is closed by `exec`; nothing says so of the driver's own.
        let copy = descriptor.try_clone();
        let copy = copy.map_err(|error| {
            Error::new(ErrorKind::LimitExceeded, error.to_string())
                .during(OPERATION)
                .on_device(self.id)
        })?;
        let note = (mapped.size as u64).to_le_bytes();
        Ok(MemoryHandle::from_descriptor(copy).with_note(note))
    }

    unsafe fn open(&self, mut handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        const OPERATION: &str = "open memory";
        let refused = |message: String| {
            Error::new(ErrorKind::Malformed, message).during(OPERATION).on_device(self.id)
        };
        let descriptor = handle.take_descriptor().map_err(|error| refused(error.to_string()))?;
        let noted = <[u8; 8]>::try_from(handle.note).map(u64::from_le_bytes);
        let (Some(descriptor), Ok(noted)) = (descriptor, noted) else {
            let name = self.api.vendor().name;
            return Err(refused(format!(
                "memory of {name} is shared by a descriptor and a note of 8 bytes"
            )));
        };
        let (functions, size) = self.whole(len, OPERATION)?;
        let Some(size) = size.filter(|size| *size as u64 == noted) else {
            return Err(refused(format!(
                "{len} bytes and an allocation of {noted} were announced"
            )));
        };
        let descriptor = checked(descriptor).map_err(&refused)?;
        let _entered = self.enter(OPERATION)?;
        let _apart = Apart::new(self.api);
        let failed = |code| {
            let error = self.error(code, OPERATION);
            match error.kind() {
                ErrorKind::OutOfMemory | ErrorKind::DeviceLost | ErrorKind::ShutDown => error,
                _ => refused("the descriptor is not of as much memory of this device".into()),
            }
        };
        let mut number = descriptor.as_raw_fd();
        let given: Handle = if self.api.imports_by_pointer() {
            (&raw mut number).cast()
        } else {
            ptr::without_provenance_mut(number as usize)
        };
        let mut handle = 0;
        // SAFETY: a handle is written. The descriptor is given as this version of the driver takes
        // it, is open during the call, and is from a process that is trusted, so it is one that the
        // driver exported. It stays this process's own.
        ok(unsafe { (functions.import)(&mut handle, given, DESCRIPTOR) }).map_err(failed)?;
        let device = self.device.ordinal;
        let mapped = Mapped { device, handle, size, len, rights: READ, is_own: false };
        let memory = self.map_all(functions, mapped).map_err(failed)?;
        Ok(OpenedMemory { memory, is_fixed: false })
    }

    unsafe fn close(&self, memory: Raw<Memory>, _len: u64) {
        let Some(functions) = &self.api.loaded().mapping else { return };
        let Ok(_entered) = self.enter("free") else { return };
        let _apart = Apart::new(self.api);
        // Taken out first: giving it back may wait for the device.
        let mapped = lock(&self.api.loaded().mappings).mappings.remove(&memory.bits());
        let Some(mapped) = mapped else { return };
        // SAFETY: `allocate` or `open` mapped it, and nothing uses it any more, as the caller
        // promises (UNS-22).
        unsafe { self.unmap_all(functions, memory.as_ptr(), mapped) };
    }
}

impl<A: Api> GpuDriver<A> {
    /// How memory of this device is shared. The driver is asked once.
    pub(crate) fn shares(&self) -> Option<&Shares> {
        self.shares.get_or_init(|| self.ask_for_sharing()).as_ref()
    }

    fn ask_for_sharing(&self) -> Option<Shares> {
        let vendor = self.api.vendor();
        let functions = self.api.loaded().mapping.as_ref()?;
        let _entered = self.enter("share").ok()?;
        let has = |number| {
            let value = crate::diagnosis::attribute(self.api, &self.device, number);
            value.map_err(|_| self.api.forget_error()).is_ok_and(|value| value != 0)
        };
        if self.kind != crate::Kind::Device
            || !has(vendor.mapping_by_hand)
            || !vendor.descriptors.is_none_or(has)
            || !self.api.has_descriptors()
        {
            return None;
        }
        let done = |code: Code| self.api.succeeded(code).then_some(());
        let (mut version, mut uuid, mut unit) = (0_i32, [0_u8; 16], 0);
        let mut place = [0 as c_char; 64];
        // SAFETY: a number is written.
        done(unsafe { (self.api.functions().driver_version)(&mut version) })?;
        // SAFETY: 16 bytes are written.
        done(unsafe { (functions.uuid)(&mut uuid, self.device.device) })?;
        let room = place.len() as i32 - 1;
        // SAFETY: there is room for so many bytes, and one more that stays 0.
        done(unsafe { (functions.bus_id)(place.as_mut_ptr(), room, self.device.device) })?;
        let properties = properties(&self.device);
        // SAFETY: a number is written and one description read.
        done(unsafe { (functions.granularity)(&mut unit, &properties, MINIMUM) })?;
        // SAFETY: the text ends with a zero inside the array: its last byte was not given away.
        let place = unsafe { CStr::from_ptr(place.as_ptr()) };
        let version = version.to_le_bytes();
        // The place in the machine is there because some devices have no number of their own.
        let parts = [uuid.as_slice(), place.to_bytes(), version.as_slice()];
        (unit > 0).then_some(Shares { domain: SharingDomain::of(vendor.way, &parts), unit })
    }

    /// The functions, and the size of an allocation for `len` bytes. No size where the size does
    /// not fit into a `usize`.
    fn whole(
        &self,
        len: u64,
        operation: &'static str,
    ) -> Result<(&'static Mapping, Option<usize>)> {
        let (Some(shares), Some(functions)) = (self.shares(), &self.api.loaded().mapping) else {
            let message = "memory of this device cannot be opened by other processes";
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.during(operation).on_device(self.id));
        };
        let len = usize::try_from(len).ok();
        Ok((functions, len.and_then(|len| len.checked_next_multiple_of(shares.unit))))
    }

    /// Maps an allocation to address space of its own, and gives access to it. Releases it where
    /// that fails. The device is current.
    fn map_all(&self, functions: &Mapping, mut mapped: Mapped) -> Result<Raw<Memory>, Code> {
        let (size, handle) = (mapped.size, mapped.handle);
        let mut address = ptr::null_mut();
        // SAFETY: an address is written. No place and no alignment is asked for; the flags have to
        // be 0.
        let mut code = unsafe { (functions.reserve)(&mut address, size, 0, ptr::null_mut(), 0) };
        let is_reserved = code == 0;
        if code == 0 {
            // SAFETY: the address space was just reserved, and has this size.
            code = unsafe { (functions.map)(address, size, 0, handle, 0) };
        }
        let is_mapped = is_reserved && code == 0;
        if is_mapped {
            let mut mappings = lock(&self.api.loaded().mappings);
            let give = |rights| {
                let access = mappings.access(mapped.device, rights);
                // SAFETY: all of the range is mapped, and the list has that many entries.
                unsafe { (functions.set_access)(address, size, access.as_ptr(), access.len()) }
            };
            code = give(mapped.rights);
            if matches!(code, INVALID_VALUE | NOT_SUPPORTED) && mapped.rights != READ_WRITE {
                self.api.forget_error();
                mapped.rights = READ_WRITE;
                code = give(READ_WRITE);
            }
            if code == 0 {
                mappings.mappings.insert(address.addr(), mapped);
                return Ok(Raw::from_ptr(address));
            }
            // SAFETY: it was just mapped, and nobody has the address.
            self.api.succeeded(unsafe { (functions.unmap)(address, size) });
        }
        // SAFETY: nobody else has the handle.
        self.api.succeeded(unsafe { (functions.release)(handle) });
        if is_reserved {
            // SAFETY: nothing is mapped there.
            self.api.succeeded(unsafe { (functions.free_space)(address, size) });
        }
        Err(code)
    }

    /// # Safety
    /// `map_all` mapped it, and nothing uses it any more.
    unsafe fn unmap_all(&self, functions: &Mapping, address: Handle, mapped: Mapped) {
        // SAFETY: `map_all` mapped it, and nothing uses it any more, as the caller promises.
        let is_unmapped = self.api.succeeded(unsafe { (functions.unmap)(address, mapped.size) });
        // SAFETY: the handle is released once, here.
        self.api.succeeded(unsafe { (functions.release)(mapped.handle) });
        if is_unmapped {
            // SAFETY: nothing is mapped there any more.
            self.api.succeeded(unsafe { (functions.free_space)(address, mapped.size) });
        }
    }

    /// Lets this device reach all mappings of another device, now and later. Returns whether it
    /// does.
    pub(crate) fn reach_mappings(&self, peer: &ReadyDevice) -> bool {
        let Some(functions) = &self.api.loaded().mapping else { return true };
        let mut mappings = lock(&self.api.loaded().mappings);
        let pair = (peer.ordinal, self.device.ordinal);
        if mappings.reached.contains(&pair) {
            return true;
        }
        let location = MemoryLocation { kind: LOCATION_DEVICE, id: self.device.ordinal };
        let mut given =
            mappings.mappings.iter().filter(|(_, mapped)| mapped.device == peer.ordinal);
        let is_given = given.all(|(address, mapped)| {
            let access = PoolAccess { location, flags: mapped.rights };
            let address = ptr::without_provenance_mut(*address);
            // SAFETY: all of the range is mapped, as long as the lock is held; one description is
            // read.
            self.api.succeeded(unsafe { (functions.set_access)(address, mapped.size, &access, 1) })
        });
        if !is_given {
            return false;
        }
        mappings.reached.push(pair);
        true
    }
}

/// Refuses descriptors that are certainly not of memory of a device. A driver that reads from a
/// pipe might do so for ever.
fn checked(descriptor: OwnedFd) -> Result<OwnedFd, String> {
    let file = File::from(descriptor);
    let status = file.metadata().map_err(|error| format!("the descriptor: {error}"))?;
    let kind = status.file_type();
    if kind.is_fifo() || kind.is_socket() || kind.is_dir() || kind.is_block_device() {
        return Err("the descriptor is not of memory of a device".into());
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_mapping_and_not_behind_it() {
        let mapped = Mapped { device: 0, handle: 1, size: 4096, len: 100, rights: 3, is_own: true };
        let mappings = Mappings { mappings: BTreeMap::from([(8192, mapped)]), reached: Vec::new() };
        for (address, is_inside) in [(8191, false), (8192, true), (8291, true), (8292, false)] {
            assert_eq!(mappings.around(address).is_some(), is_inside, "{address}");
        }
    }

    #[test]
    fn access_is_given_to_the_device_and_to_those_that_reach_it() {
        let reached = vec![(1, 0), (0, 2), (1, 3)];
        let mappings = Mappings { mappings: BTreeMap::new(), reached };
        let given = mappings.access(1, READ);
        let devices: Vec<i32> = given.iter().map(|access| access.location.id).collect();
        assert_eq!(devices, [1, 0, 3]);
        assert!(given.iter().all(|access| access.flags == READ));
    }
}
