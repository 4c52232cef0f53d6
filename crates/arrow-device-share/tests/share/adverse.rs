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
