//! Bytes for arrays that the caller makes.

use std::ffi::{c_int, c_void};
use std::sync::MutexGuard;

use arrow_device::driver::ForkMutex;
use arrow_device::{Buffer, DeviceId, DeviceType, Memory, Queue, Result};

use crate::call::{Out, free, get, invalid, null, run, values};
use crate::context::{ArdevRelease, Context};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::view::ArdevPlace;

#[derive(Debug)]
pub struct ArdevBuffer(ForkMutex<BufferState>);

#[derive(Debug)]
enum BufferState {
    /// This program's alone.
    Own(Memory),
    Shared(Buffer),
    /// While it is being shared, and after a panic in that.
    Gone,
}

impl ArdevBuffer {
    fn new(state: BufferState) -> Self {
        Self(ForkMutex::new(state))
    }

    /// Memory that is this program's alone.
    pub(crate) fn own(memory: Memory) -> Self {
        Self::new(BufferState::Own(memory))
    }

    fn state(&self) -> Result<MutexGuard<'_, BufferState>> {
        self.0.lock()
    }

    /// The bytes, which nobody writes to from now on.
    pub(crate) fn share(&self) -> Result<Buffer> {
        let mut state = self.state()?;
        let buffer = match std::mem::replace(&mut *state, BufferState::Gone) {
            BufferState::Own(memory) => memory.into_buffer(),
            BufferState::Shared(buffer) => buffer,
            BufferState::Gone => return Err(invalid("the buffer was lost in an earlier failure")),
        };
        *state = BufferState::Shared(buffer.clone());
        Ok(buffer)
    }

    fn place(&self, queue: &Queue) -> Result<ArdevPlace> {
        match &mut *self.state()? {
            BufferState::Own(memory) => {
                let (spot, len) = (memory.spot(queue)?, memory.len());
                // SAFETY: the header asks whoever is told the place to have all bytes written, by
                // work that is submitted before the bytes are shared to a queue that was named.
                unsafe { memory.assume_written(len) };
                let size = i64::try_from(len).unwrap_or(i64::MAX);
                Ok(ArdevPlace { base: spot.base.as_ptr().cast_const(), offset: spot.offset, size })
            }
            _ => Err(invalid("the bytes are shared, and nobody may write to them any more")),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_allocate(
    queue: *const ArdevQueue,
    size: u64,
    out: *mut *mut ArdevBuffer,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { ArdevQueue::or_host(queue) };
        out.give(ArdevBuffer::own(queue.allocate(size)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_copy(
    queue: *const ArdevQueue,
    bytes: *const c_void,
    size: u64,
    out: *mut *mut ArdevBuffer,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let len = usize::try_from(size).map_err(|_| invalid("`size` is larger than any memory"))?;
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { values(bytes.cast::<u8>(), len, "bytes") }?;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { ArdevQueue::or_host(queue) };
        let mut memory = queue.allocate(size)?;
        memory.write(&queue, bytes)?;
        out.give(ArdevBuffer::own(memory))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_wrap(
    device_type: i32,
    device_id: i64,
    base: *const c_void,
    size: u64,
    context: *mut c_void,
    release: ArdevRelease,
    out: *mut *mut ArdevBuffer,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let context = Context::new(context, release);
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        if base.is_null() {
            return Err(null("base"));
        }
        let device = DeviceId::new(DeviceType(device_type), device_id);
        // SAFETY: the header asks for so many bytes on this device, until `release`, which the
        // context calls.
        let buffer = unsafe { Buffer::foreign(device, base, size, context) };
        out.give(ArdevBuffer::new(BufferState::Shared(buffer)))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_place(
    buffer: *mut ArdevBuffer,
    queue: *const ArdevQueue,
    out: *mut ArdevPlace,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, ArdevPlace::NOWHERE, "out") }?;
        // SAFETY: rule 2 of the header.
        let buffer = unsafe { get(buffer, "buffer") }?;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { ArdevQueue::or_host(queue) };
        out.put(buffer.place(&queue)?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_slice(
    buffer: *mut ArdevBuffer,
    offset: u64,
    size: u64,
    out: *mut *mut ArdevBuffer,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let part = unsafe { get(buffer, "buffer") }?.share()?.slice(offset, size)?;
        out.give(ArdevBuffer::new(BufferState::Shared(part)))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_free(buffer: *mut ArdevBuffer) {
    // SAFETY: rule 2 of the header.
    unsafe { free(buffer) }
}
