//! Both ends in one process: what is sent comes, in the same memory, and is held as long as it is
//! used.

use std::time::Duration;

use arrow_device::{Array, DataType, Device, ErrorKind, Recycler};
use arrow_device_share::{open, share, to_shareable};
use arrow_device_testkit::consumer::require_buffers_of;
use arrow_device_testkit::generate::{self, for_each};
use arrow_device_testkit::kinds::types;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::process::{End, alone, descriptors, end_of, forked};
use arrow_device_testkit::{Verdict, oracle, release_until, require};

use crate::support::{SOON, batch, connected, said, shareable, software};

fn goes_through(generated: &generate::Generated, here: &Device, there: &Device) -> Verdict {
    let array = generate::build(&generated.plan, &Ledger::new()).map_err(said)?;
    let array = to_shareable(&array, here).map_err(said)?;
    let (ticket, sender) = share(&array).map_err(said)?;
    let opened = open(ticket, [there.clone()]).map_err(said)?;
    require(opened.data_type() == array.data_type(), || format!("{}", opened.data_type()))?;
    require(opened.field() == array.field(), || format!("{:?}", opened.field()))?;
    require(opened.null_count() == array.null_count(), || format!("{:?}", opened.null_count()))?;
    require_buffers_of(&opened)?;
    let back = opened.to_host().map_err(said)?;
    back.validate().map_err(said)?;
    oracle::require_equal(&generated.plan, &oracle::plan_of(&back)?)?;
    drop((opened, back));
    require(sender.wait_until_released(SOON).map_err(said)?, || "not released".to_owned())
}

#[test]
fn arrays_of_all_types_and_windows_come_as_they_were() {
    let host = Device::host();
    let count = if cfg!(debug_assertions) { 300 } else { 3000 };
    for_each(count, 31, |generated| goes_through(generated, &host, &host));
}

#[test]
fn arrays_of_a_device_come_to_a_device_of_the_same_kind() {
    let (_one, here) = software();
    let (_other, there) = software();
    for_each(200, 32, |generated| goes_through(generated, &here, &there));
}

/// Shares and opens an array, and its copy for other processes, and checks the buffers of both.
fn has_buffers(array: &Array, device: &Device) {
    let (ticket, sender) = share(array).unwrap();
    let opened = open(ticket, [device.clone()]).unwrap();
    require_buffers_of(&opened).unwrap();
    assert_eq!((opened.len(), opened.data_type()), (array.len(), array.data_type()));
    let copy = to_shareable(&opened, device).unwrap();
    drop(opened);
    let (ticket, again) = share(&copy).unwrap();
    require_buffers_of(&open(ticket, [device.clone()]).unwrap()).unwrap();
    drop(copy);
    assert!(release_until(|| sender.held().unwrap() + again.held().unwrap() == 0));
}

// Requirement: ARR-17
#[test]
fn arrays_without_elements_come_with_the_buffers_that_have_bytes() {
    let (_sim, software) = software();
    let mut count = 0;
    for device in [Device::host(), software] {
        for kind in types() {
            for window in Window::ALL {
                let plan = kind.plan(window, Nulls::Counted);
                let array = generate::build(&plan, &Ledger::new()).unwrap();
                let array = to_shareable(&array, &device).unwrap();
                let len = array.len();
                for (from, rows) in [(0, len), (0, 0), (len / 2, 0), (len, 0)] {
                    let part = array.slice(from, rows).unwrap();
                    has_buffers(&part, &device);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 1000, "{count}");
}

// Requirement: ARR-17
#[test]
fn arrays_without_elements_that_were_never_copied_get_their_offsets() {
    for kind in types() {
        for window in [Window::EMPTY, Window::ABSENT] {
            let plan = kind.plan(window, Nulls::None);
            let array = generate::build(&plan, &Ledger::new()).unwrap();
            // Dictionaries may have values, which lie in other memory.
            let Ok((ticket, _sender)) = share(&array) else { continue };
            require_buffers_of(&open(ticket, [Device::host()]).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_thousand_columns_are_one_allocation() {
    let column = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
    let columns = (0..1000).map(|number| (format!("column {number}"), column.clone()));
    let wide = arrow_device::Batch::from_columns(columns).unwrap();
    let wide = to_shareable(wide.as_array(), &Device::host()).unwrap();
    alone(|| {
        let before = descriptors();
        let (ticket, sender) = share(&wide).unwrap();
        // Both ends of the ticket's socket. What is in the ticket is not open here.
        assert_eq!(descriptors(), before + 2);
        let opened = open(ticket, [Device::host()]).unwrap();
        assert_eq!(descriptors(), before + 2);
        assert!(opened.equals(&wide).unwrap());
        drop(opened);
        assert!(sender.wait_until_released(SOON).unwrap());
        drop(sender);
        assert_eq!(descriptors(), before);
    });
}

/// The inode of the file that is mapped at an address.
fn inode_at(address: usize) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
        (from..to).contains(&address).then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

#[test]
fn both_sides_have_the_same_pages() {
    let array = shareable(100);
    let (ticket, _sender) = share(&array).unwrap();
    let opened = open(ticket, [Device::host()]).unwrap();
    let address = |array: &Array| {
        let host = array.child(0).unwrap().host().unwrap();
        host.buffer(1).unwrap().as_ptr().addr()
    };
    let (one, other) = (address(&array), address(&opened));
    assert_ne!(one, other);
    assert!(inode_at(one).is_some_and(|inode| inode != 0));
    assert_eq!(inode_at(one), inode_at(other));
}

#[test]
fn both_sides_have_the_same_pages_of_the_software_device() {
    alone(|| {
        let (_one, here) = software();
        let (_other, there) = software();
        crate::devices::both_sides_have_the_same_pages(&here, &there);
    });
}

// Requirement: SAF-42
#[test]
fn an_array_is_held_until_its_last_part_is_gone() {
    let (sender, mut receiver) = connected([Device::host()]);
    sender.send(&shareable(10)).unwrap();
    sender.send(&shareable(20)).unwrap();
    let first = receiver.receive().unwrap().unwrap();
    let second = receiver.receive().unwrap().unwrap();
    assert_eq!(sender.held().unwrap(), 2);
    let part = first.child(1).unwrap().slice(3, 4).unwrap();
    drop(first);
    assert_eq!(sender.held().unwrap(), 2);
    drop(receiver);
    drop(second);
    assert_eq!(sender.held().unwrap(), 1, "arrays outlive the receiver");
    drop(part);
    assert_eq!(sender.held().unwrap(), 0);
}

// Requirement: SAF-13, SAF-42
#[test]
fn an_array_of_a_device_is_held_until_its_queue_has_passed_the_use() {
    let (_one, here) = software();
    let (_other, there) = software();
    let array = to_shareable(batch(50).as_array(), &here).unwrap();
    let (ticket, sender) = share(&array).unwrap();
    let opened = open(ticket, [there.clone()]).unwrap();
    let queue = there.open_queue().unwrap();
    let copy = opened.copy_with(&queue, &arrow_device::copy::Options::new().always(true)).unwrap();
    drop(opened);
    assert_eq!(sender.held().unwrap(), 1, "the copy has not run");
    queue.synchronize().unwrap();
    arrow_device::deferred::release_finished();
    // The thread of another test may be the one that releases the array.
    assert!(sender.wait_until_released(SOON).unwrap());
    assert_eq!(sender.held().unwrap(), 0);
    assert!(copy.to_host().unwrap().equals(batch(50).as_array()).unwrap());
}

#[test]
fn a_sender_that_is_dropped_still_holds_what_is_used() {
    alone(|| {
        let before = Device::host().held().allocated;
        let (sender, mut receiver) = connected([Device::host()]);
        sender.send(&shareable(10)).unwrap();
        let array = receiver.receive().unwrap().unwrap();
        drop(sender);
        assert!(Device::host().held().allocated > before, "the keeper has it");
        drop((array, receiver));
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while Device::host().held().allocated > before {
            assert!(std::time::Instant::now() < end, "the keeper lets go");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn thousands_of_releases_are_told_though_the_sender_looks_late() {
    let (sender, mut receiver) = connected([Device::host()]);
    let array = shareable(3);
    let count = 5000;
    let received: Vec<Array> = std::thread::scope(|threads| {
        let sending = threads.spawn(|| (0..count).try_for_each(|_| sender.send(&array)));
        let received = (0..count).map(|_| receiver.receive().unwrap().unwrap()).collect();
        sending.join().unwrap().unwrap();
        received
    });
    // One frame for each: more than the system keeps for a sender that does not read.
    received.into_iter().for_each(drop);
    assert!(sender.wait_until_released(SOON).unwrap());
}

#[test]
fn a_ticket_that_nobody_opens_is_released_and_opens_once() {
    let (ticket, sender) = share(&shareable(5)).unwrap();
    assert_eq!(sender.held().unwrap(), 1);
    drop(ticket);
    assert_eq!(sender.held().unwrap(), 0);

    let (ticket, _sender) = share(&shareable(5)).unwrap();
    let again = ticket.try_clone().unwrap();
    let opened = open(ticket, [Device::host()]).unwrap();
    assert_eq!(open(again, [Device::host()]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(opened.len(), 5);
}

#[test]
fn memory_that_was_not_made_for_it_is_refused_by_name() {
    let error = share(batch(10).as_array()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`n`: buffer 0 does not lie in memory"), "{error}");
}

// Requirement: SAF-41
#[test]
fn memory_that_is_used_again_is_taken_on_trust_only() {
    let recycler = Recycler::new(1 << 20);
    let device = Device::host().with_allocator(recycler.clone());
    let array = to_shareable(batch(10).as_array(), &device).unwrap();

    let (ticket, sender) = share(&array).unwrap();
    let error = open(ticket, [Device::host()]).unwrap_err();
    assert!(error.to_string().contains("the sender can still write to it"), "{error}");
    assert_eq!(sender.held().unwrap(), 0, "what is refused is released");

    let (sender, receiver) = connected([Device::host()]);
    // SAFETY: UNS-38: the test holds the array, and writes nowhere.
    let mut receiver = unsafe { receiver.trusting() };
    sender.send(&array).unwrap();
    let opened = receiver.receive().unwrap().unwrap();
    assert!(opened.equals(batch(10).as_array()).unwrap());
    drop(array);
    assert_eq!(recycler.kept(), 0, "the sender holds the array");
    drop(opened);
    assert_eq!(sender.held().unwrap(), 0);
    assert!(recycler.kept() > 0);
    // The same block again, which can be written.
    let again = to_shareable(batch(10).as_array(), &device).unwrap();
    assert!(again.equals(batch(10).as_array()).unwrap());
}

#[test]
fn an_array_without_bytes_is_shared_too() {
    for data_type in [DataType::Null, DataType::Utf8, DataType::Utf8View] {
        let array = Array::empty(data_type).unwrap();
        let (ticket, sender) = share(&array).unwrap();
        assert!(open(ticket, [Device::host()]).unwrap().equals(&array).unwrap());
        assert_eq!(sender.held().unwrap(), 0);
    }
}

// Requirement: SAF-42
#[test]
fn memory_that_is_fixed_can_be_read_and_is_written_by_nobody() {
    let ended = end_of(|| {
        let array = shareable(10);
        let host = array.child(0).unwrap().host().unwrap();
        let buffer = host.buffer(1).unwrap();
        let before = buffer.to_vec();
        let _shared = share(&array).unwrap();
        assert_eq!(*buffer, *before, "the same bytes at the same place");
        // SAFETY: none: the test shows that the system ends a process that writes here.
        unsafe { buffer.as_ptr().cast_mut().write_volatile(1) };
    });
    assert!(ended.is_none_or(|end| end == End::Crashed), "{ended:?}");
}

#[test]
fn threads_that_wait_and_look_at_once_all_learn_of_the_release() {
    for _ in 0..50 {
        let (sender, mut receiver) = connected([Device::host()]);
        sender.send(&shareable(4)).unwrap();
        let array = receiver.receive().unwrap().unwrap();
        std::thread::scope(|threads| {
            let waiting: Vec<_> = (0..3)
                .map(|_| threads.spawn(|| sender.wait_until_released(None).unwrap()))
                .collect();
            threads.spawn(move || drop(array));
            while sender.held().unwrap() > 0 {
                std::hint::spin_loop();
            }
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
        });
    }
}

// Requirement: SAF-27, SAF-28
#[test]
fn a_child_of_fork_uses_what_came_and_not_the_connection() {
    alone(|| {
        let (sender, mut receiver) = connected([Device::host()]);
        sender.send(&shareable(9)).unwrap();
        sender.send(&shareable(8)).unwrap();
        let mut array = receiver.receive().unwrap();
        let here = shareable(7);
        forked(|| {
            let refused = |error: arrow_device::Error| error.kind() == ErrorKind::Unsupported;
            require(sender.send(&here).is_err_and(refused), || "it sends".to_owned())?;
            require(sender.held().is_err_and(refused), || "it looks".to_owned())?;
            require(receiver.receive().is_err_and(refused), || "it receives".to_owned())?;
            let array = array.take().ok_or("taken")?;
            let is_same = array.equals(batch(9).as_array()).map_err(said)?;
            require(is_same, || "it reads something else".to_owned())?;
            // Told to nobody.
            drop(array);
            // Memory of the parent is not the child's to share. What the child makes is.
            require(share(&here).is_err_and(refused), || "it shares".to_owned())?;
            let own = shareable(6);
            let (ticket, _sender) = share(&own).map_err(said)?;
            let again = open(ticket, [Device::host()]).map_err(said)?;
            require(again.equals(&own).map_err(said)?, || "its own differs".to_owned())
        });
        assert_eq!(sender.held().unwrap(), 2);
        assert!(array.unwrap().equals(batch(9).as_array()).unwrap());
        assert_eq!(sender.held().unwrap(), 1);
        assert_eq!(receiver.receive().unwrap().unwrap().len(), 8);
    });
}

#[test]
fn a_sender_gives_up_on_a_receiver_that_does_not_read() {
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    let sender = arrow_device_share::Sender::new(one).with_patience(Duration::from_millis(1));
    let array = shareable(3);
    let error = (0..100_000).find_map(|_| sender.send(&array).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    drop(other);
    assert_eq!(sender.held().unwrap(), 0);
}

#[test]
fn a_receiver_comes_to_the_end_while_it_uses_all_that_came() {
    let (sender, mut receiver) = connected([Device::host()]);
    sender.send(&shareable(5)).unwrap();
    let array = receiver.receive().unwrap().unwrap();
    drop(sender);
    assert!(receiver.receive_within(Duration::from_secs(5)).unwrap().is_none());
    assert!(array.equals(batch(5).as_array()).unwrap());
}
