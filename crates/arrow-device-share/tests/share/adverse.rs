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

#[test]
fn nothing_follows_a_message_that_was_sent_in_part() {
    let (one, other) = UnixStream::pair().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&one, 4096).unwrap();
    let sender = Sender::new(one).with_patience(Duration::ZERO);
    let array = {
        let column = batch(1).column(0).unwrap();
        let columns = (0..300).map(|number| (format!("column {number}"), column.clone()));
        let wide = arrow_device::Batch::from_columns(columns).unwrap();
        to_shareable(wide.as_array(), &Device::host()).unwrap()
    };
    let mut sent = 0;
    let error = loop {
        match sender.send(&array) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    let (bytes, _descriptors) = taken_apart(&other.as_fd().try_clone_to_owned().unwrap());
    println!("{sent} sent, {} bytes", bytes.len());
    let error = sender.send(&array).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    assert_eq!(sender.held().unwrap(), sent);
}

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
fn a_limit_on_the_size_of_files_is_an_error() {
    alone(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
        rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
        let host = Device::host().shareable().unwrap();
        assert!(host.allocate(4096).is_ok());
        assert_eq!(host.allocate(4097).unwrap_err().kind(), ErrorKind::OutOfMemory);
        let (_sim, device) = software();
        let device = device.shareable().unwrap();
        assert_eq!(device.allocate(1 << 20).unwrap_err().kind(), ErrorKind::OutOfMemory);
        // A schema that lies in memory of its own.
        let field = Field::new("x".repeat(1 << 16), DataType::Null, true);
        let array = Array::builder(Schema::new(field).unwrap()).finish_ready().unwrap();
        let error = Sender::new(one).send(&array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        drop(other);
    });
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
