//! Arrays of one process in another one.
//!
//! Descriptors that C passes are owned from the first line of a function on, so that each is closed
//! whatever the outcome. What only Linux has is in `share_linux`, and its refusals elsewhere in
//! `share_elsewhere`; both have the same functions.

use std::ffi::c_int;
use std::time::Duration;

use arrow_device::{Array, Device, Error, ErrorKind, Result};

use crate::array::ArdevArray;
use crate::call::{Out, free, get, invalid, run, values};
use crate::device::ArdevDevice;
use crate::error::ArdevError;
use crate::queue::limit;
#[cfg(not(target_os = "linux"))]
use crate::share_elsewhere as platform;
#[cfg(target_os = "linux")]
use crate::share_linux as platform;
use crate::stream::ArdevStream;

#[derive(Debug)]
pub struct ArdevSender(platform::Sender);

#[derive(Debug)]
pub struct ArdevReceiver(platform::Receiver);

pub const ARDEV_SENDER_WRITABLE: u32 = 1;
pub const ARDEV_SENDER_EARLY: u32 = 2;
pub const ARDEV_SENDER_TRUSTING: u32 = 4;
pub const ARDEV_RECEIVER_TRUSTING: u32 = 1;
pub const ARDEV_RECEIVER_PASSING_ON: u32 = 2;

/// What a descriptor is where there is none.
const NO_DESCRIPTOR: c_int = -1;

/// Which flags are set, of those that are known.
fn are_set<const N: usize>(flags: u32, known: [u32; N]) -> Result<[bool; N]> {
    let all = known.iter().fold(0, |all, flag| all | flag);
    if flags & !all != 0 {
        return Err(invalid(format!("`flags` is {flags:#x}, and all flags together are {all:#x}")));
    }
    Ok(known.map(|flag| flags & flag != 0))
}

/// # Safety
/// The table has `len` devices, as the header says.
unsafe fn devices(table: *const *const ArdevDevice, len: usize) -> Result<Vec<Device>> {
    // SAFETY: the table has `len` devices, as the caller promises.
    let devices = unsafe { values(table, len, "devices") }?;
    let device =
        // SAFETY: rule 2 of the header.
        |device: &*const ArdevDevice| unsafe { get(*device, "a device") }.map(|it| it.0.clone());
    devices.iter().map(device).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_shareable(
    device: *const ArdevDevice,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        out.give(ArdevDevice(device.0.shareable()?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_to_shareable(
    array: *const ArdevArray,
    device: *const ArdevDevice,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        out.give(ArdevArray(platform::to_shareable(&array.0, &device.0)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_share(
    array: *const ArdevArray,
    ticket: *mut c_int,
    out: *mut *mut ArdevSender,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the header asks for a place to write to.
        let ticket = unsafe { Out::new(ticket, NO_DESCRIPTOR, "ticket") };
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        let (ticket, out) = (ticket?, out?);
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        let (descriptor, sender) = platform::share(&array.0)?;
        out.give(ArdevSender(sender))?;
        ticket.put(descriptor)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_open(
    ticket: c_int,
    devices: *const *const ArdevDevice,
    n_devices: usize,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the header asks for an open descriptor, which is the library's from now on.
        let ticket = unsafe { platform::own(ticket, "ticket") };
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: the header asks for a table of so many devices.
        let devices = unsafe { self::devices(devices, n_devices) }?;
        out.give(ArdevArray(platform::open(ticket?, devices)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_new(
    fd: c_int,
    flags: u32,
    out: *mut *mut ArdevSender,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the header asks for an open descriptor, which is the library's from now on.
        let fd = unsafe { platform::own(fd, "fd") };
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let known = [ARDEV_SENDER_WRITABLE, ARDEV_SENDER_EARLY, ARDEV_SENDER_TRUSTING];
        let [is_writable, is_early, trusts] = are_set(flags, known)?;
        // SAFETY: UNS-38: with the flag, the header asks for a receiver that keeps the obligation.
        let sender = unsafe { platform::new_sender(fd?, is_writable, is_early, trusts) }?;
        out.give(ArdevSender(sender))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_send(
    sender: *const ArdevSender,
    array: *const ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let sender = unsafe { get(sender, "sender") }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        sender.0.send(&array.0)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_serve(
    sender: *const ArdevSender,
    stream: *const ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let sender = unsafe { get(sender, "sender") }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?.take()?;
        sender.0.serve(stream)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_held(
    sender: *const ArdevSender,
    out: *mut usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, 0, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(sender, "sender") }?.0.held()?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_wait(
    sender: *const ArdevSender,
    timeout: i64,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let sender = unsafe { get(sender, "sender") }?;
        if sender.0.wait_until_released(limit(timeout))? {
            return Ok(());
        }
        let message = "the receiver still uses arrays of this sender";
        Err(Error::new(ErrorKind::TimedOut, message))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_fd(
    sender: *const ArdevSender,
    out: *mut c_int,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, NO_DESCRIPTOR, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(platform::socket_of(&unsafe { get(sender, "sender") }?.0))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_sender_free(sender: *mut ArdevSender) {
    // SAFETY: rule 2 of the header.
    unsafe { free(sender) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_new(
    fd: c_int,
    devices: *const *const ArdevDevice,
    n_devices: usize,
    flags: u32,
    out: *mut *mut ArdevReceiver,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the header asks for an open descriptor, which is the library's from now on.
        let fd = unsafe { platform::own(fd, "fd") };
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: the header asks for a table of so many devices.
        let devices = unsafe { self::devices(devices, n_devices) }?;
        let [trusts, passes_on] =
            are_set(flags, [ARDEV_RECEIVER_TRUSTING, ARDEV_RECEIVER_PASSING_ON])?;
        // SAFETY: UNS-38: with the flag, the header asks for a sender that keeps the obligation.
        let receiver = unsafe { platform::Receiver::new(fd?, devices, trusts, passes_on) }?;
        out.give(ArdevReceiver(receiver))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_receive(
    receiver: *const ArdevReceiver,
    timeout: i64,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let receiver = unsafe { get(receiver, "receiver") }?;
        let came: Option<Array> = receiver.0.receive(limit(timeout))?;
        came.map_or(Ok(()), |array| out.give(ArdevArray(array)))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_take_early(
    receiver: *const ArdevReceiver,
    limit: i64,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let receiver = unsafe { get(receiver, "receiver") }?;
        receiver.0.take_early(self::limit(limit).unwrap_or(Duration::MAX))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_stream(
    receiver: *const ArdevReceiver,
    ahead: usize,
    out: *mut *mut ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let receiver = unsafe { get(receiver, "receiver") }?;
        out.give(ArdevStream::new(receiver.0.stream(ahead)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_fd(
    receiver: *const ArdevReceiver,
    out: *mut c_int,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, NO_DESCRIPTOR, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(receiver, "receiver") }?.0.socket()?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_receiver_free(receiver: *mut ArdevReceiver) {
    // SAFETY: rule 2 of the header.
    unsafe { free(receiver) }
}
