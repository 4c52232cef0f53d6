//! The process that makes the data of an early array ends while another process has its sockets:
//! a child of `fork` has those of its parent.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use arrow_device::ErrorKind;
use arrow_device_share::{Receiver, Sender};
use arrow_device_testkit::process::{alone, forked};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::early::{failure, finish, held_up, message, received, shareable_on, software};
use crate::peer::{put, taken_apart};
use crate::processes::{Meeting, second};
use crate::support::said;

/// Longer than the end of a process takes to be seen.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the system has descriptors of processes: Linux 5.3 and later.
fn are_processes_seen() -> bool {
    let are_seen = pidfd_open(getpid(), PidfdFlags::empty()).is_ok();
    if !are_seen {
        println!("skipped: the system has no descriptors of processes");
    }
    are_seen
}

/// Both ends of a pair of sockets whose maker has ended.
fn pair_without_maker() -> [OwnedFd; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    forked(|| {
        let (end, event) = UnixStream::pair().map_err(said)?;
        put(&one, &[0], &[end.as_fd(), event.as_fd()]).map_err(said)
    });
    let (_, descriptors) = taken_apart(&other.into());
    descriptors.try_into().unwrap()
}

// Requirement: SAF-43
#[test]
fn the_end_of_the_process_that_made_an_event_is_seen_whoever_has_its_sockets() {
    alone(|| {
        if !are_processes_seen() {
            return;
        }
        let (here_sim, here) = held_up();
        let (_there_sim, there) = software();
        let (bytes, _event, memory) = message(&here);
        finish(&here_sim);
        let came = |event| {
            let beside = [event, memory.try_clone().unwrap()];
            received(&bytes, &beside, &there, LIMIT).unwrap()
        };
        let [_silent, event] = pair_without_maker();
        let said = failure(&came(event));
        assert!(said.contains("has ended before the data was there"), "{said}");
        // What was told before the end counts.
        let [end, event] = pair_without_maker();
        UnixStream::from(end).write_all(&[1]).unwrap();
        came(event).wait().unwrap();
    });
}

// Requirement: SAF-43
#[test]
fn data_whose_maker_is_killed_is_an_error_though_a_child_of_fork_lives() {
    let test = "makers::data_whose_maker_is_killed_is_an_error_though_a_child_of_fork_lives";
    if let Some(socket) = second() {
        let (_sim, device) = held_up();
        let sender = Sender::new(socket).early();
        sender.send(&shareable_on(&device, 3)).unwrap();
        // The child lives until the first process lets it go.
        let mut life = second().unwrap();
        return forked(move || {
            life.write_all(&[1]).map_err(said)?;
            life.read(&mut [0]).map(drop).map_err(said)
        });
    }
    alone(|| {
        if !are_processes_seen() {
            return;
        }
        let meeting = Meeting::new("maker-killed");
        let (_sim, device) = software();
        let mut child = meeting.start(test);
        let mut receiver = Receiver::new(meeting.accept(), [device]).taking_early(LIMIT);
        let came = receiver.receive().unwrap().unwrap();
        let mut life = meeting.accept();
        life.read_exact(&mut [0]).unwrap();
        assert!(!came.is_ready().unwrap());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| failure(&came));
            child.kill().unwrap();
            child.wait().unwrap();
            let said = waits.join().unwrap();
            assert!(said.contains("has ended before the data was there"), "{said}");
        });
        // The connection has not ended: the child has it.
        let error = receiver.receive_within(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    });
}
