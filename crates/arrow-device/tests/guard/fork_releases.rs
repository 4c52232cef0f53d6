//! Releases in a child of `fork`: what its parent is about to release is the parent's, and settled
//! host arrays are the child's, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, Buffer, DataType, Device, Queue};
use arrow_device_testkit::OnDrop;
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::process::{alone, forked};

use crate::trap::Trap;

// Requirement: SAF-28
#[test]
fn a_host_array_whose_uses_have_ended_is_released_in_a_child() {
    alone(|| {
        let (_trap, manual, device) = Trap::open();
        let queue = device.open_queue().unwrap();
        let owner = Arc::new(());
        queue.keep_until_done(owner.clone());
        manual.complete(&queue);
        release_finished();
        let host = Buffer::from(vec![1_i64, 2]);
        let array = Array::builder(DataType::Int64).len(2).buffers([None, Some(host)]);
        let mut array = Some(array.finish_ready().unwrap());
        drop(array.as_ref().unwrap().on(&Queue::host()).unwrap());
        forked(|| {
            drop(array.take());
            match held_back() {
                now if now.is_nothing() && now.abandoned == 0 => Ok(()),
                now => Err(format!("not released: {now:?}")),
            }
        });
        drop(array);
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

/// What the first release forks into: 0 in the child.
static CHILD: AtomicI32 = AtomicI32::new(-1);

// Requirement: SAF-14, SAF-28
#[test]
fn a_child_that_begins_in_a_release_releases_nothing_of_its_parent() {
    alone(|| {
        let (manual, device) = Manual::open();
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let owner = Arc::new(());
        queue.keep_until_done(OnDrop(|| {
            // SAFETY: the child only counts, and ends by `_exit` below.
            CHILD.store(unsafe { libc::fork() }, Ordering::SeqCst);
        }));
        // One that the parent releases after the fork.
        let array = device_array(&device, &owner);
        let view = array.on(&queue).unwrap();
        drop((view, array));
        assert_eq!((held_back().in_use, Arc::strong_count(&owner)), (2, 2));
        manual.complete(&queue);
        release_finished();
        let child = CHILD.load(Ordering::SeqCst);
        if child == 0 {
            let code = 40 + Arc::strong_count(&owner) as i32;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and nobody else waits for it.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 42, "released in the child, too");
        assert_eq!(Arc::strong_count(&owner), 1, "not released in the parent");
    });
}

fn device_array(device: &Device, owner: &Arc<()>) -> Array {
    let address = std::ptr::without_provenance(0x1000);
    // SAFETY: nobody reads device memory here.
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
    let array = Array::builder(DataType::Int64).device(device.id()).len(4);
    array.buffers([None, Some(buffer)]).finish_ready().unwrap()
}
