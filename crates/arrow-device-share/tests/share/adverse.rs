//! Sides that go on, stop or leave where nobody expects that: what they were given is let go, and
//! nobody waits for them.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::{
    Allocator, Array, ArrayStream, DataType, Device, DeviceType, ErrorKind, Field, Recycler, Schema,
};
use arrow_device_share::{Receiver, Sender, open, share, to_shareable};
use arrow_device_testkit::process::{alone, forked};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, Rlimit};

use crate::hostile::{frame, sent, taken_apart};
use crate::support::{batch, connected, shareable, software};

// Requirement: SAF-42
#[test]
fn a_recycler_gives_memory_that_can_be_fixed_out_once() {
    let once = Device::host().shareable().unwrap();
    let queue = once.open_queue().unwrap();
    let recycler = Recycler::new(1 << 20);
    for value in 1..4_u8 {
        let mut memory = recycler.allocate(&once, 4096, None).unwrap();
        memory.write(&queue, &[value; 4096]).unwrap();
        let buffers = [None, Some(memory.into_buffer())];
        let array =
            Array::builder(DataType::UInt8).len(4096).buffers(buffers).finish_ready().unwrap();
        let (ticket, _sender) = share(&array).unwrap();
        let opened = open(ticket, [Device::host()]).unwrap();
        assert!(opened.equals(&array).unwrap());
    }
    assert_eq!(recycler.kept(), 0);
}

// Requirement: SAF-41
#[test]
fn memory_without_pages_is_refused() {
    let (bytes, _right) = taken_apart(&share(&shareable(20)).unwrap().0);
    for huge in [MemfdFlags::empty(), MemfdFlags::HUGETLB] {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let Ok(memory) = rustix::fs::memfd_create(c"without pages", flags) else { continue };
        rustix::fs::ftruncate(&memory, 4 << 20).unwrap();
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
        let error = open(sent(&bytes, &[memory]).into(), [Device::host()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{huge:?}: {error}");
    }
}

#[test]
fn memory_that_a_child_can_write_to_is_not_fixed_and_the_error_says_why() {
    alone(|| {
        let array = shareable(10);
        let (mut begun, mut begins) = UnixStream::pair().unwrap();
        let (mut ends, mut end) = UnixStream::pair().unwrap();
        // The child ends also where this test fails.
        ends.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let child = std::thread::spawn(move || {
            forked(move || {
                begins.write_all(&[1]).map_err(|error| error.to_string())?;
                ends.read_exact(&mut [0]).map_err(|error| error.to_string())
            });
        });
        begun.read_exact(&mut [0]).unwrap();
        let error = share(&array).unwrap_err();
        assert!(error.to_string().contains("a child of `fork`"), "{error}");
        end.write_all(&[1]).unwrap();
        child.join().unwrap();
        let (ticket, _sender) = share(&array).unwrap();
        assert!(open(ticket, [Device::host()]).unwrap().equals(&array).unwrap());
    });
}
