//! Memory of each kind: allocating, freeing, and saying what lies at an address.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use arrow_device::driver::{Allocation, Raw};
use arrow_device::{DeviceId, Error, ErrorKind, Memory, Queue, Result};

use crate::code::{INVALID_VALUE, NOT_SUPPORTED};
use crate::{Api, Code, GpuDriver, Handle, Kind, ok};

/// Pinned memory that every device of the runtime reaches.
const PORTABLE: u32 = 1;

const MEMORY_TYPE: i32 = 2;
const IS_MANAGED: i32 = 8;
const DEVICE_ORDINAL: i32 = 9;
const RANGE_START: i32 = 11;
const RANGE_SIZE: i32 = 12;

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
        let out = &mut memory;
        match self.kind {
            Kind::Device => self.call_apart("allocate", |functions| {
                // SAFETY: the address is written.
                unsafe { (functions.mem_alloc)(out, size) }
            })?,
            Kind::Host => self.call_apart("allocate", |functions| {
                // SAFETY: the address is written.
                unsafe { (functions.mem_host_alloc)(out, size, PORTABLE) }
            })?,
            Kind::Managed => {
                self.require_free(len)?;
                self.call_apart("allocate", |_| self.api.allocate_managed(out, size))?;
            }
        }
        if memory.is_null() {
            let error = Error::new(ErrorKind::Driver, "it was allocated at address 0");
            return Err(error.during("allocate").on_device(self.id));
        }
        Ok(Raw::from_ptr(memory))
    }

    /// Memory that is there when the stream has come so far; `None` where the device or the driver
    /// has none such.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn allocate_in_order(&self, size: usize, stream: Handle) -> Result<Option<Handle>> {
        let Some(allocate) = self.api.functions().mem_alloc_async else {
            self.allocates_in_order.store(false, Ordering::Relaxed);
            return Ok(None);
        };
        let mut memory = ptr::null_mut();
        let done = self.submit(stream, "allocate", |_| {
            // SAFETY: the address is written; the stream is promised by the caller.
            let code = unsafe { allocate(&mut memory, size, stream) };
            if code == NOT_SUPPORTED {
                self.api.forget_error();
                self.allocates_in_order.store(false, Ordering::Relaxed);
                return 0;
            }
            code
        });
        done.map(|()| Some(memory).filter(|memory| !memory.is_null()))
    }

    /// Managed memory may be larger than the device's; what does not fit is moved to and fro, or
    /// ends the process on devices that cannot.
    fn require_free(&self, len: u64) -> Result<()> {
        let (mut free, mut total) = (0, 0);
        self.call("ask for free memory", |functions| {
            // SAFETY: two numbers are written.
            unsafe { (functions.mem_get_info)(&mut free, &mut total) }
        })?;
        if len <= free as u64 {
            return Ok(());
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

    /// Pinned memory, initialised; `None` where there is none to be had, and plain memory has to
    /// do.
    pub(crate) fn allocate_pinned_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        let mut memory = ptr::null_mut();
        let allocated = self.call_apart("allocate", |functions| {
            // SAFETY: the address is written.
            unsafe { (functions.mem_host_alloc)(&mut memory, size, PORTABLE) }
        });
        match allocated {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return Ok(None),
            other => other?,
        }
        let address = NonNull::new(memory.cast::<u8>());
        if let Some(address) = address {
            // SAFETY: `size` bytes of host memory that nobody else has ("the driver returns
            // page-locked memory accessible to the host").
            unsafe { address.write_bytes(0, size) };
        }
        Ok(address)
    }

    /// What lies at an address; `None` where the driver does not know it, as for plain memory of
    /// the host.
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
        let Some((start, size)) = self.range(address) else { return Ok(None) };
        let remaining = start.saturating_add(size).saturating_sub(address.addr());
        Ok(Some(Allocation { device, remaining: remaining as u64 }))
    }

    /// Where the allocation around an address begins and how long it is.
    fn range(&self, address: Handle) -> Option<(usize, usize)> {
        let start = self.attribute(address, RANGE_START, 0_usize);
        let size = self.attribute(address, RANGE_SIZE, 0_usize);
        if let (Ok(start), Ok(size)) = (start, size) {
            return Some((start, size)).filter(|(_, size)| *size > 0);
        }
        let ask = self.api.functions().mem_get_address_range?;
        let (mut start, mut size) = (ptr::null_mut(), 0);
        // SAFETY: an address and a number are written; the device is current.
        let code = unsafe { ask(&mut start, &mut size, address) };
        (code == 0).then_some((start.addr(), size))
    }

    /// What kind of memory lies at an address; `None` where the driver does not know the address. A
    /// device is current.
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
        // A truth value of which only the lowest byte is certain to be written.
        let is_managed = self.ask_about(address, IS_MANAGED, 0_u32);
        if is_managed.is_ok_and(|is_managed| is_managed & 0xff != 0) {
            return Ok(Some(Kind::Managed));
        }
        let host = self.api.host_memory_type()?;
        Ok(match memory_type {
            known if known == host => Some(Kind::Host),
            known if known == host + 1 => Some(Kind::Device),
            _ => None,
        })
    }

    /// One attribute of an address, as wide as the vendor's manual says.
    fn attribute<T: Copy>(&self, address: Handle, attribute: i32, value: T) -> Result<T> {
        let answer = self.ask_about(address, attribute, value);
        answer.map_err(|code| self.error(code, "locate"))
    }

    /// As [`attribute`](Self::attribute), with the driver's code where it fails.
    fn ask_about<T>(&self, address: Handle, attribute: i32, mut value: T) -> Result<T, Code> {
        let out = (&raw mut value).cast();
        // SAFETY: the attributes that are asked for are numbers of this width; the address is
        // looked up and not followed.
        ok(unsafe { (self.api.functions().pointer_attribute)(out, attribute, address) })?;
        Ok(value)
    }
}
