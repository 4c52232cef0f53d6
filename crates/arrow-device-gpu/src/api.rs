//! [`Api`]: the part of a driver that differs between vendors.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::fmt;

use arrow_device::ErrorKind;

use crate::code::NOT_SUPPORTED;
use crate::{Code, CopyList, Functions, Handle, Loaded, ReadyDevice, Vendor};

/// A loaded driver, with the operations that its vendor does in its own way.
///
/// Functions that work on a device are called between [`enter`](Self::enter) and
/// [`leave`](Self::leave).
///
/// # Safety
/// [`GpuDriver`](crate::GpuDriver) relies on each operation for what it owes as a driver (DRV-1 to
/// DRV-31 of `docs/safety.md`): the operation calls the vendor's function, does what its
/// documentation says, and returns the code of the call.
pub unsafe trait Api: fmt::Debug + Send + Sync + 'static {
    /// The state that [`enter`](Self::enter) found, for [`leave`](Self::leave) to restore.
    type Saved;

    /// The loaded library, its functions and its devices.
    fn loaded(&self) -> &Loaded;

    /// The functions that both vendors have.
    fn functions(&self) -> &Functions {
        &self.loaded().functions
    }

    /// The vendor's names and numbers.
    fn vendor(&self) -> &'static Vendor {
        self.loaded().found.vendor
    }

    /// Returns the driver's version in words.
    fn version(&self) -> Result<String, Code>;

    /// Makes a device ready: where the vendor has contexts, retains the primary one. Called once
    /// for each device in the life of the process, after the driver was initialised.
    fn get_ready(&self, ordinal: i32) -> Result<ReadyDevice, Code>;

    /// Returns the device of this number. The first call makes it ready.
    fn ready(&self, ordinal: i32) -> Result<ReadyDevice, Code>
    where
        Self: Sized,
    {
        self.loaded().ready(ordinal, || {
            let device = self.get_ready(ordinal)?;
            Ok(ReadyDevice { pool: crate::pool::make(self, &device), ..device })
        })
    }

    /// Makes a device the current one of this thread.
    fn enter(&self, device: &ReadyDevice) -> Result<Self::Saved, Code>;

    /// Makes the device or context current again that was current before.
    fn leave(&self, saved: Self::Saved);

    /// Allocates managed memory that every stream may use.
    fn allocate_managed(&self, memory: &mut Handle, size: usize) -> Code {
        let _ = (memory, size);
        NOT_SUPPORTED
    }

    /// Submits a copy between any two kinds of memory.
    ///
    /// # Safety
    /// UNS-21: both sides have this many bytes and stay until the stream has passed, which is
    /// alive.
    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code;

    /// Submits a copy from the memory of another device. `None` where the driver has no function
    /// for that.
    ///
    /// # Safety
    /// UNS-21: both sides have this many bytes, lie on these devices and stay until the stream has
    /// passed, which is alive.
    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &ReadyDevice),
        from: (Handle, &ReadyDevice),
        len: usize,
        stream: Handle,
    ) -> Option<Code>;

    /// Submits a list of copies by a function that this vendor prefers to
    /// [`memcpy_batch`](Functions::memcpy_batch). `None` where the driver has no such function.
    ///
    /// # Safety
    /// UNS-21, for each of the copies: both sides have this many bytes and stay until the stream
    /// has passed, which is alive.
    unsafe fn copy_list(&self, list: &mut CopyList, stream: Handle) -> Option<Code> {
        let _ = (list, stream);
        None
    }

    /// Whether this version of the driver exports and imports descriptors of memory.
    fn has_descriptors(&self) -> bool {
        true
    }

    /// Whether a descriptor is imported by a pointer to its number, and not by the number in place
    /// of a pointer.
    fn imports_by_pointer(&self) -> bool {
        false
    }

    /// Lets the current device reach the memory of another device. `None` where the driver has no
    /// function for that.
    fn enable_peer(&self, peer: &ReadyDevice) -> Option<Code>;

    /// Returns the driver's number for the memory type of host memory. The memory type of device
    /// memory is the next number.
    fn host_memory_type(&self) -> Result<u32, Code>;

    /// Returns the vendor's name of a code.
    fn error_name(&self, code: Code) -> Option<Cow<'static, str>>;

    /// Returns what a code means, where it does not mean the same for both vendors.
    fn meaning(&self, code: Code) -> Option<(ErrorKind, &'static str)> {
        let _ = code;
        None
    }

    /// Called after a call failed. Takes the error out of the place where the vendor keeps the last
    /// one, so that a program that asks for the last error gets its own.
    fn forget_error(&self) {}

    /// Whether a call succeeded. For calls whose failure changes nothing and is ignored: the error
    /// is forgotten.
    fn succeeded(&self, code: Code) -> bool {
        if code != 0 {
            self.forget_error();
        }
        code == 0
    }
}

/// Converts a vendor's text. `None` where the text is null.
///
/// # Safety
/// The text is null, or ends with a zero and stays for the life of the process.
pub unsafe fn text(text: *const c_char) -> Option<Cow<'static, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the text is null, or ends with a zero and stays for the life of the process, as the
    // caller promises.
    let text: &'static CStr = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy())
}
