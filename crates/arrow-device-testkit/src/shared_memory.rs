//! What tests of [`Sharing`](arrow_device::driver::Sharing) need: memory that is there to be
//! exported, the bytes of what was opened, and files of memory that no driver made.
//!
//! Exporting and opening stay with each test, because what makes them safe is another thing for
//! each driver.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use arrow_device::driver::SharedPlace;
use arrow_device::{Array, Buffer, DataType, Device, Memory};

/// Memory with these bytes, and the place of it. The device is one whose memory is shareable.
///
/// # Panics
/// Panics where the device gives no such memory.
pub fn filled(device: &Device, bytes: &[u8]) -> (Memory, SharedPlace) {
    let queue = device.open_queue().expect("a device has queues");
    let mut memory = device.allocate(bytes.len() as u64).expect("there is memory");
    memory.write(&queue, bytes).expect("the memory can be written");
    queue.synchronize().expect("the queue goes on");
    let place = memory.spot(&queue).expect("the queue is of the device").base;
    let place = device.find_shared(place).expect("the memory is shareable");
    (memory, place)
}

/// An array whose data are the first bytes of a buffer on a device.
///
/// # Panics
/// Panics where the buffer has fewer bytes.
pub fn array_of(buffer: Buffer, len: usize, device: &Device) -> Array {
    let array = Array::builder(DataType::UInt8).device(device.id()).len(len);
    let array = array.buffers([None, Some(buffer)]).finish_ready();
    array.expect("the buffer has the bytes")
}

/// The bytes of such an array, read by the host.
///
/// # Panics
/// Panics where the array cannot be copied to the host.
pub fn bytes_of(array: &Array) -> Vec<u8> {
    let host = array.to_host().expect("the host gets a copy");
    let host = host.host().expect("a copy on the host can be read");
    let bytes = host.buffer(1).expect("the array has data");
    bytes.get(..array.len()).expect("the copy has all bytes").to_vec()
}

/// A file of memory of the host that no driver made: so many bytes, all with pages, and these
/// seals.
///
/// # Panics
/// Panics where the system makes no such file.
pub fn file_of_memory(len: u64, seals: i32) -> OwnedFd {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"hostile".as_ptr(), flags) };
    assert!(file >= 0, "no file of memory: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor was just made, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let len = libc::off_t::try_from(len).expect("a file can be so long");
    // SAFETY: a call with numbers alone, on an open descriptor.
    let made = if len == 0 { 0 } else { unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } };
    assert_eq!(made, 0, "no pages: {}", std::io::Error::last_os_error());
    // SAFETY: a call with numbers alone, on an open descriptor.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    assert_eq!(sealed, 0, "no seals: {}", std::io::Error::last_os_error());
    file
}
