//! Memory of each kind: allocates it, frees it, and finds out what lies at an address.
//!
//! An allocation for a queue comes from a pool in the order of the queue, where the device can do
//! that: no work is waited for, and memory that was freed is used again. Where the device turns out
//! not to be able to, this is not tried again. Without a queue, and for pinned and managed memory,
//! the driver allocates at once. Where the device has no memory left, the library's own pool gives
//! back what it has kept, and the allocation is tried once more.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use arrow_device::driver::{Allocation, Raw};
use arrow_device::{DeviceId, Error, ErrorKind, Memory, Queue, Result};

use crate::code::{INVALID_DEVICE_POINTER, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::driver::Apart;
use crate::{Api, Code, GpuDriver, Handle, Kind, ok};

/// The flag of pinned memory that every device of the runtime reaches.
const PORTABLE: u32 = 1;

const MEMORY_TYPE: i32 = 2;
const IS_MANAGED: i32 = 8;
const DEVICE_ORDINAL: i32 = 9;
const RANGE_START: i32 = 11;
const RANGE_SIZE: i32 = 12;

/// Whether an error says that no later call will work.
fn is_the_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::ShutDown)
}

impl<A: Api> GpuDriver<A> {
    /// # Safety
    /// UNS-22, as [`Driver::allocate`](arrow_device::driver::Driver::allocate) has it.
    pub(crate) unsafe fn allocate_kind(
        &self,
        len: u64,
        queue: Option<Raw<Queue>>,
    ) -> Result<Raw<Memory>> {
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(queue) = queue.filter(|_| self.allocates_in_order()) {
            // SAFETY: UNS-22, which the caller keeps: the stream is alive.
            if let Some(memory) = unsafe { self.allocate_in_order(size, queue.as_ptr()) }? {
                return Ok(Raw::from_ptr(memory));
            }
        }
        let mut memory = ptr::null_mut();
        let out = &raw mut memory;
        match self.kind {
            Kind::Device => self.call_apart("allocate", |functions| {
                self.or_from_the_pool(|| {
                    // SAFETY: the address is written.
                    unsafe { (functions.mem_alloc)(out, size) }
                })
            })?,
            Kind::Host => self.call_apart("allocate", |functions| {
                // SAFETY: the address is written.
                unsafe { (functions.mem_host_alloc)(out, size, PORTABLE) }
            })?,
            Kind::Managed => {
                self.require_free(len)?;
                self.call_apart("allocate", |_| self.api.allocate_managed(&mut memory, size))?;
            }
        }
        if memory.is_null() {
            let error = Error::new(ErrorKind::Driver, "it was allocated at address 0");
            return Err(error.during("allocate").on_device(self.id));
        }
        Ok(Raw::from_ptr(memory))
    }

    /// Allocates memory that is there when the stream comes to this allocation. `None` where the
    /// device or the driver cannot do that.
    ///
    /// # Safety
    /// UNS-22: the stream is alive.
    unsafe fn allocate_in_order(&self, size: usize, stream: Handle) -> Result<Option<Handle>> {
        let functions = self.api.functions();
        let from_pool = functions.pool_alloc_async.filter(|_| self.from_own_pool);
        if from_pool.is_none() && functions.mem_alloc_async.is_none() {
            self.allocates_in_order.store(false, Ordering::Relaxed);
            return Ok(None);
        }
        let mut memory = ptr::null_mut();
        let out = &raw mut memory;
        let allocate = || match (from_pool, functions.mem_alloc_async) {
            // SAFETY: the address is written; the pool is never destroyed, and the stream is
            // alive (UNS-22).
            (Some(allocate), _) => unsafe { allocate(out, size, self.device.pool, stream) },
            // SAFETY: the address is written; the stream is alive (UNS-22).
            (None, Some(allocate)) => unsafe { allocate(out, size, stream) },
            (None, None) => NOT_SUPPORTED,
        };
        let done = self.submit(stream, "allocate", |_| {
            let code = self.or_from_the_pool(allocate);
            if code == NOT_SUPPORTED {
                self.api.forget_error();
                self.allocates_in_order.store(false, Ordering::Relaxed);
                return 0;
            }
            code
        });
        done.map(|()| Some(memory).filter(|memory| !memory.is_null()))
    }

    /// Allocates. Where no memory was left, trims the device's own pool, which may have kept some,
    /// and allocates once more.
    pub(crate) fn or_from_the_pool(&self, mut allocate: impl FnMut() -> Code) -> Code {
        let code = allocate();
        if code != OUT_OF_MEMORY || self.device.pool.is_null() {
            return code;
        }
        self.api.forget_error();
        self.trim_pool();
        allocate()
    }

    /// Checks that the device has as much free memory as is asked for. Drivers give out more
    /// managed memory than a device has. The excess is then moved between host and device again and
    /// again, or ends the process where the device cannot move memory.
    fn require_free(&self, len: u64) -> Result<()> {
        let (mut free, mut total) = (0, 0);
        for trims in [false, true] {
            self.call("ask for free memory", |functions| {
                if trims {
                    self.trim_pool();
                }
                // SAFETY: two numbers are written.
                unsafe { (functions.mem_get_info)(&mut free, &mut total) }
            })?;
            if len <= free as u64 {
                return Ok(());
            }
        }
        let message = format!("{len} bytes asked for, and the device has {free} of {total} free");
        let error = Error::new(ErrorKind::OutOfMemory, message);
        Err(error.during("allocate").on_device(self.id))
    }

    /// # Safety
    /// It was allocated as this kind, and nothing uses it any more.
    pub(crate) unsafe fn free_kind(&self, memory: Handle, kind: Kind) {
        let _ = self.call_apart("free", |functions| match kind {
            // SAFETY: it was allocated as this kind, and nothing uses it any more, as the caller
            // promises. Also for what was allocated in the order of a stream: "This API will not
            // perform any implicit synchronization when the pointer was allocated with
            // cuMemAllocAsync. Callers must ensure that all accesses to this pointer have
            // completed", as they have.
            Kind::Device | Kind::Managed => unsafe { (functions.mem_free)(memory) },
            // SAFETY: it was allocated as this kind, and nothing uses it any more, as the caller
            // promises.
            Kind::Host => unsafe { (functions.mem_free_host)(memory) },
        });
    }

    /// Allocates pinned memory, filled with zeros. `None` where the driver refuses, whatever the
    /// reason, and the caller has to use plain memory.
    pub(crate) fn allocate_pinned_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        let mut memory = ptr::null_mut();
        {
            let _entered = self.enter("allocate")?;
            let _apart = Apart::new(self.api);
            // SAFETY: the address is written.
            let code =
                unsafe { (self.api.functions().mem_host_alloc)(&mut memory, size, PORTABLE) };
            match self.check(code, "allocate") {
                // A limit of the process, of a container or of the system was reached. Plain memory
                // will do.
                Err(error) if !is_the_end(&error) => return Ok(None),
                other => other?,
            }
        }
        let address = NonNull::new(memory.cast::<u8>());
        if let Some(address) = address {
            // SAFETY: `size` bytes of host memory that nobody else has ("the driver returns
            // page-locked memory accessible to the host").
            unsafe { address.write_bytes(0, size) };
        }
        Ok(address)
    }

    /// Returns the allocation that an address lies in. `None` where the driver does not know the
    /// address, as for plain host memory.
    ///
    /// # Safety
    /// None: the driver looks the address up and does not follow it.
    pub(crate) unsafe fn locate_address(&self, address: Handle) -> Result<Option<Allocation>> {
        let _entered = self.enter("locate")?;
        let kind = self.kind_at(address);
        let kind = kind.or_else(|code| self.check(code, "locate").map(|()| None))?;
        let Some(device_type) = kind.and_then(|kind| self.api.vendor().device_type(kind)) else {
            return Ok(None);
        };
        let ordinal = self.attribute(address, DEVICE_ORDINAL, 0_i32)?;
        let device = DeviceId::new(device_type, i64::from(ordinal));
        let Some((start, size)) = self.range(address)? else { return Ok(None) };
        let remaining = start.saturating_add(size).saturating_sub(address.addr());
        Ok(Some(Allocation { device, remaining: remaining as u64 }))
    }

    /// Returns where the allocation around an address begins and how long it is. `None` where the
    /// driver cannot tell.
    fn range(&self, address: Handle) -> Result<Option<(usize, usize)>> {
        if self.api.vendor().ranges_are_attributes {
            let start = self.ask_about(address, RANGE_START, 0_usize);
            let range = start.and_then(|start| {
                self.ask_about(address, RANGE_SIZE, 0_usize).map(|size| (start, size))
            });
            match range {
                Ok(range) => return Ok(Some(range).filter(|(_, size)| *size > 0)),
                Err(INVALID_VALUE | NOT_SUPPORTED) => self.api.forget_error(),
                Err(code) => return Err(self.error(code, "locate")),
            }
        }
        let Some(ask) = self.api.functions().mem_get_address_range else { return Ok(None) };
        let (mut start, mut size) = (ptr::null_mut(), 0);
        // SAFETY: an address and a number are written; the device is current.
        match unsafe { ask(&mut start, &mut size, address) } {
            0 => Ok(Some((start.addr(), size))),
            INVALID_VALUE | INVALID_DEVICE_POINTER | NOT_FOUND | NOT_SUPPORTED => {
                self.api.forget_error();
                Ok(None)
            }
            code => Err(self.error(code, "locate")),
        }
    }

    /// Returns what kind of memory lies at an address. `None` where the driver does not know the
    /// address. A device has to be current.
    fn kind_at(&self, address: Handle) -> Result<Option<Kind>, Code> {
        let memory_type = match self.ask_about(address, MEMORY_TYPE, 0_u32) {
            // "If ptr was not allocated by, mapped by, or registered with a CUcontext which uses
            // unified virtual addressing CUDA_ERROR_INVALID_VALUE is returned."
            Err(INVALID_VALUE) => {
                self.api.forget_error();
                return Ok(None);
            }
            other => other?,
        };
        let is_managed = match self.ask_about(address, IS_MANAGED, 0_u32) {
            // The driver does not know the attribute, or not of this address.
            Err(INVALID_VALUE | NOT_SUPPORTED) => {
                self.api.forget_error();
                0
            }
            other => other?,
        };
        // The attribute is a truth value of which only the lowest byte is certain to be written.
        if is_managed & 0xff != 0 {
            return Ok(Some(Kind::Managed));
        }
        let host = self.api.host_memory_type()?;
        Ok(match memory_type {
            known if known == host => Some(Kind::Host),
            known if known == host + 1 => Some(Kind::Device),
            _ => None,
        })
    }

    /// Returns an attribute of an address. The type of `value` is as wide as the vendor's manual
    /// says.
    fn attribute<T: Copy>(&self, address: Handle, attribute: i32, value: T) -> Result<T> {
        let answer = self.ask_about(address, attribute, value);
        answer.map_err(|code| self.error(code, "locate"))
    }

    /// Does what [`attribute`](Self::attribute) does, and returns the driver's code where it fails.
    fn ask_about<T>(&self, address: Handle, attribute: i32, mut value: T) -> Result<T, Code> {
        let out = (&raw mut value).cast();
        // SAFETY: the attributes that are asked for are numbers of this width; the address is
        // looked up and not followed.
        ok(unsafe { (self.api.functions().pointer_attribute)(out, attribute, address) })?;
        Ok(value)
    }
}
