//! Arrays that came from one process and are sent on to a third one, without a copy.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use arrow_device::{Array, Device, ErrorKind, Recycler};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_testkit::process::{alone, descriptors};

use crate::processes::{Meeting, PATH, second};
use crate::support::{SOON, batch, connected, shareable, software};

/// Sends an array over a connection whose receiver passes on what comes.
fn passed_on(array: &Array) -> (Sender, Array) {
    let (sender, receiver) = connected([Device::host()]);
    sender.send(array).unwrap();
    let came = receiver.passing_on().receive().unwrap().unwrap();
    (sender, came)
}

fn address(array: &Array) -> usize {
    array.child(0).unwrap().host().unwrap().buffer(1).unwrap().as_ptr().addr()
}

// Requirement: SAF-42
#[test]
fn the_first_process_holds_what_the_third_one_uses() {
    alone(|| {
        let before = descriptors();
        {
            let (first, came) = passed_on(&shareable(10));
            let (second, mut third) = connected([Device::host()]);
            // A part and the whole lie in one allocation.
            second.send(&came).unwrap();
            second.send(&came.slice(2, 3).unwrap()).unwrap();
            let whole = third.receive().unwrap().unwrap();
            let part = third.receive().unwrap().unwrap();
            assert!(whole.equals(batch(10).as_array()).unwrap());
            assert!(part.equals(&batch(10).as_array().slice(2, 3).unwrap()).unwrap());
            assert_ne!(address(&whole), address(&came));
            drop(came);
            assert_eq!((first.held().unwrap(), second.held().unwrap()), (1, 2));
            drop(whole);
            assert_eq!((second.held().unwrap(), first.held().unwrap()), (1, 1));
            drop(part);
            assert_eq!((second.held().unwrap(), first.held().unwrap()), (0, 0));
        }
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn what_is_passed_on_costs_a_descriptor_until_it_is_released() {
    alone(|| {
        let (sender, receiver) = connected([Device::host()]);
        let mut receiver = receiver.passing_on();
        sender.send(&shareable(10)).unwrap();
        assert_eq!(sender.held().unwrap(), 1);
        let before = descriptors();
        let array = receiver.receive().unwrap().unwrap();
        // The one that was in the socket, beside that of the sender.
        assert_eq!(descriptors(), before + 1);
        drop(array);
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn what_was_not_received_for_it_is_refused_and_the_error_names_the_remedy() {
    let (sender, mut receiver) = connected([Device::host()]);
    sender.send(&shareable(10)).unwrap();
    let came = receiver.receive().unwrap().unwrap();
    let error = connected([]).0.send(&came).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let said = error.to_string();
    assert!(said.contains("to_shareable") && said.contains("told to pass it on"), "{said}");
    let copy = to_shareable(&came, &Device::host()).unwrap();
    connected([]).0.send(&copy).unwrap();
}

/// The process that made such memory may write there as soon as the second process has ended.
// Requirement: SAF-41
#[test]
fn memory_that_is_not_fixed_is_not_passed_on() {
    let recycling = Device::host().with_allocator(Recycler::new(1 << 20));
    let (_one, here) = software();
    let (_other, there) = software();
    for (made, opens) in [(recycling, Device::host()), (here, there)] {
        let array = to_shareable(batch(10).as_array(), &made).unwrap();
        let (sender, receiver) = connected([opens]);
        // SAFETY: UNS-38: the test holds the array, and writes nowhere.
        let mut receiver = unsafe { receiver.trusting() }.passing_on();
        sender.send(&array).unwrap();
        let came = receiver.receive().unwrap().unwrap();
        assert!(came.to_host().unwrap().equals(batch(10).as_array()).unwrap());
        let error = connected([]).0.send(&came).unwrap_err();
        assert!(error.to_string().contains("`n`: buffer 0 does not lie in memory"), "{error}");
    }
}

// Requirement: SAF-42
#[test]
fn what_was_passed_on_stays_usable_after_the_end_of_the_second_process() {
    let test = "passing_on::what_was_passed_on_stays_usable_after_the_end_of_the_second_process";
    if let Some(socket) = second() {
        let mut came = Receiver::new(socket, [Device::host()]).passing_on();
        let array = came.receive().unwrap().unwrap();
        let path = std::env::var(PATH).unwrap();
        let to_third = Sender::new(UnixStream::connect(format!("{path}-third")).unwrap());
        to_third.send(&array).unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    alone(|| {
        // The third process is the first one again, over another connection.
        let (meeting, third) = (Meeting::new("passed-on"), Meeting::new("passed-on-third"));
        let mut child = meeting.start(test);
        let first = Sender::new(meeting.accept());
        first.send(&shareable(20)).unwrap();
        let array = Receiver::new(third.accept(), [Device::host()]).receive().unwrap().unwrap();
        assert_eq!(first.held().unwrap(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(first.wait_until_released(SOON).unwrap());
        assert_eq!(first.held().unwrap(), 0);
        assert!(array.equals(batch(20).as_array()).unwrap());
    });
}
