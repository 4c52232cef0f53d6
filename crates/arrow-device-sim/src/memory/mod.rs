//! Device memory: addresses that the host cannot read, and bytes behind them that the engine can.
//!
//! On Linux a [`DeviceBytes`] is a part of one large range of address space without access rights,
//! and the engine works through a second mapping of the same pages. On other systems, and where no
//! such range can be had, device memory is protected less: see [`Protection`].

#[cfg(all(target_os = "linux", not(miri)))]
mod guarded;
mod plain;

use std::collections::BTreeMap;
#[cfg(all(target_os = "linux", not(miri)))]
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use arrow_device::driver::PerProcess;
#[cfg(all(target_os = "linux", not(miri)))]
use arrow_device::driver::SealedFile;

/// The alignment and the unit of the size of every block.
pub(crate) const PAGE: usize = 4096;

/// How the host is kept from reading device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The addresses are reserved and have no access rights. A read through such an address ends
    /// the process at that line. So does a read of host-readable memory outside of `map` and
    /// `unmap`, and any write.
    Guarded,
    /// The addresses are numbers that no 64-bit system gives to programs, so a read through such an
    /// address ends the process too. On 32-bit systems there are no such numbers, and a read goes
    /// unnoticed. Host-readable memory is ordinary memory and is not protected at all.
    Numbers,
}

/// Returns how the [`DeviceBytes`] of this process are protected.
pub(crate) fn protection() -> Protection {
    #[cfg(all(target_os = "linux", not(miri)))]
    if guarded::is_available() {
        return Protection::Guarded;
    }
    Protection::Numbers
}

/// Limits the address space that device memory takes, if none was taken yet.
pub(crate) fn limit_address_space(bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    guarded::limit(bytes);
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

/// Bytes on the device. The methods check their ranges: bytes outside are neither read nor written.
#[derive(Debug)]
pub(crate) struct DeviceBytes {
    inner: Inner,
    len: usize,
}

#[derive(Debug)]
enum Inner {
    #[cfg(all(target_os = "linux", not(miri)))]
    Guarded(guarded::Range),
    Plain(plain::Storage),
}

impl DeviceBytes {
    /// Reserves memory. `None` where the host has no memory left.
    pub(crate) fn reserve(len: u64, host_readable: bool) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        #[cfg(all(target_os = "linux", not(miri)))]
        if guarded::is_available() {
            return Some(Self { inner: Inner::Guarded(guarded::Range::reserve(len)?), len });
        }
        Some(Self { inner: Inner::Plain(plain::Storage::reserve(len, host_readable)?), len })
    }

    /// Reserves memory that other processes can open, or takes such memory of another process.
    /// `None` where there is no memory left, or the descriptor is of something else.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn shared(len: u64, opened: Option<Arc<OwnedFd>>) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let range = match opened {
            Some(file) => guarded::Range::opened(file, len),
            None => guarded::Range::shareable(len),
        };
        Some(Self { inner: Inner::Guarded(range?), len })
    }

    /// The file of memory that other processes can open.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn file(&self) -> Option<&SealedFile> {
        match &self.inner {
            Inner::Guarded(range) => range.file(),
            Inner::Plain(_) => None,
        }
    }

    /// Returns how many bytes there are.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Puts the pages of a file in the place of the bytes. `false` where the file is too short, or
    /// that cannot be done.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn lay_file(&mut self, file: &SealedFile) -> bool {
        match &mut self.inner {
            Inner::Guarded(range) => range.lay_file(file),
            Inner::Plain(_) => false,
        }
    }

    /// Takes the pages of a file away again.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn take_file_off(&mut self) -> bool {
        match &mut self.inner {
            Inner::Guarded(range) => range.take_file_off(),
            Inner::Plain(_) => false,
        }
    }

    /// Returns the device's address of the bytes.
    pub(crate) fn address(&self) -> *mut u8 {
        match &self.inner {
            #[cfg(all(target_os = "linux", not(miri)))]
            Inner::Guarded(range) => range.address(),
            Inner::Plain(storage) => storage.address(),
        }
    }

    /// Lets the host read the bytes, or ends that.
    pub(crate) fn set_host_readable(&self, readable: bool) -> bool {
        let mut shown = SHOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
        match readable {
            true => shown.insert(self.address().addr(), self.len),
            false => shown.remove(&self.address().addr()),
        };
        drop(shown);
        match &self.inner {
            #[cfg(all(target_os = "linux", not(miri)))]
            Inner::Guarded(range) => range.set_host_readable(readable),
            Inner::Plain(storage) => storage.set_host_readable(readable),
        }
    }

    /// Ends the access that `open_to_host` gave, where that can be done.
    pub(crate) fn close_to_host(&self) -> bool {
        match &self.inner {
            #[cfg(all(target_os = "linux", not(miri)))]
            Inner::Guarded(range) => range.set_host_readable(false),
            Inner::Plain(_) => true,
        }
    }

    /// Lets the host read and write the bytes.
    pub(crate) fn open_to_host(&self) -> bool {
        match &self.inner {
            #[cfg(all(target_os = "linux", not(miri)))]
            Inner::Guarded(range) => range.open_to_host(),
            Inner::Plain(storage) => storage.set_host_readable(true),
        }
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let Some((from, len)) = self.part(offset, len) else { return Vec::new() };
        let mut bytes = vec![0; len];
        // SAFETY: `part` gave `len` bytes of this block, which nobody writes meanwhile: the
        // engine's lock is held by whoever has the block.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), len) };
        bytes
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let Some((to, len)) = self.part(offset, bytes.len() as u64) else { return };
        // SAFETY: `part` gave `len` bytes of this block, which nobody else uses meanwhile: the
        // engine's lock is held by whoever has the block. The slice is host memory and so no part
        // of the block.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), len) };
    }

    pub(crate) fn fill(&mut self, offset: u64, len: u64, byte: u8) {
        let Some((to, len)) = self.part(offset, len) else { return };
        // SAFETY: `part` gave `len` bytes of this block, which nobody else uses meanwhile: the
        // engine's lock is held by whoever has the block.
        unsafe { to.write_bytes(byte, len) };
    }

    /// Copies from another block or, with `None`, inside this one.
    pub(crate) fn copy(&mut self, offset: u64, from: Option<&Self>, from_offset: u64, len: u64) {
        let source = from.map_or_else(|| self.part(from_offset, len), |b| b.part(from_offset, len));
        let (Some((from, len)), Some((to, _))) = (source, self.part(offset, len)) else { return };
        // SAFETY: `part` gave `len` bytes of each block, which nobody else uses meanwhile: the
        // engine's lock is held by whoever has the blocks. The two parts may overlap, which `copy`
        // allows.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), len) };
    }

    /// Copies bytes of host memory into the block.
    ///
    /// # Safety
    /// `from` may be read for `len` bytes.
    pub(crate) unsafe fn load(&mut self, offset: u64, from: *const u8, len: u64) {
        let Some((to, len)) = self.part(offset, len) else { return };
        // SAFETY: `from` may be read for `len` bytes, as the caller promises; `part` has shown that
        // the destination lies inside the block.
        unsafe { std::ptr::copy(from, to.as_ptr(), len) };
    }

    /// Copies bytes of the block to host memory.
    ///
    /// # Safety
    /// `to` may be written for `len` bytes.
    pub(crate) unsafe fn store(&self, offset: u64, to: *mut u8, len: u64) {
        let Some((from, len)) = self.part(offset, len) else { return };
        // SAFETY: `to` may be written for `len` bytes, as the caller promises; `part` has shown
        // that the source lies inside the block.
        unsafe { std::ptr::copy(from.as_ptr(), to, len) };
    }

    /// Returns the engine's address of a part of the bytes, if the part lies inside the block.
    fn part(&self, offset: u64, len: u64) -> Option<(NonNull<u8>, usize)> {
        let end = offset.checked_add(len)?;
        if end > self.len as u64 {
            return None;
        }
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let first = match &self.inner {
            #[cfg(all(target_os = "linux", not(miri)))]
            Inner::Guarded(range) => range.bytes(),
            Inner::Plain(storage) => storage.bytes(),
        };
        // SAFETY: `offset` is at most `self.len`, and that many bytes were reserved from `first`
        // on.
        Some((unsafe { first.add(offset) }, len))
    }
}

/// The blocks of all simulators that are mapped for the host, by address.
static SHOWN: PerProcess<Mutex<BTreeMap<usize, usize>>> =
    PerProcess::new(Mutex::new(BTreeMap::new()));

impl Drop for DeviceBytes {
    fn drop(&mut self) {
        let mut shown = SHOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
        shown.remove(&self.address().addr());
    }
}

/// Whether bytes lie in a block that some simulator has mapped for the host.
pub(crate) fn is_shown(address: usize, len: u64) -> bool {
    let shown = SHOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
    shown.range(..=address).next_back().is_some_and(|(start, whole)| {
        let offset = (address - start) as u64;
        offset.checked_add(len).is_some_and(|end| end <= *whole as u64)
    })
}

/// Whether only the device may use an address.
pub(crate) fn is_device_address(address: usize) -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    if guarded::contains(address) {
        return true;
    }
    plain::contains(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_nothing_outside_is_touched() {
        let mut block = DeviceBytes::reserve(100, false).unwrap();
        block.fill(0, 100, 7);
        block.write(90, &[1; 10]);
        block.write(95, &[2; 10]);
        assert_eq!(block.read(89, 11), [7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(block.read(99, 2), []);
        assert_eq!(block.read(u64::MAX, 2), []);
        let mut other = DeviceBytes::reserve(10, false).unwrap();
        other.copy(0, Some(&block), 85, 10);
        assert_eq!(other.read(4, 3), [7, 1, 1]);
        assert_eq!(block.address().addr() % PAGE, 0);
    }

    #[test]
    fn a_freed_address_is_not_given_out_again_soon() {
        let freed = DeviceBytes::reserve(1, false).unwrap().address();
        for _ in 0..100 {
            assert_ne!(DeviceBytes::reserve(1, false).unwrap().address(), freed);
        }
        assert!(is_device_address(freed.addr()));
    }
}
