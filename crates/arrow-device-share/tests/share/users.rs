//! Two users of one machine: a process of another user has what it was sent, and nothing else.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use arrow_device::Device;
use arrow_device_share::{Receiver, Sender};
use arrow_device_testkit::process::{alone, forked};
use rustix::process::{DumpableBehavior, Gid, Uid};

use crate::peer::taken_apart;
use crate::processes::Meeting;
use crate::support::{SOON, said, shareable};

/// A user and a group that own nothing, on every Linux.
const NOBODY: u32 = 65_534;

/// Makes this process one of another user, for good.
fn become_nobody() -> Result<(), String> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).map_err(said)?;
    rustix::thread::set_thread_res_gid(group, group, group).map_err(said)?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(said)?;
    // A process whose user has changed must not look at its own descriptors in /proc otherwise.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(said)
}

fn is_denied<T>(what: &str, result: std::io::Result<T>) -> Result<(), String> {
    match result {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
        Ok(_) => Err(format!("{what} is open to another user")),
    }
}

/// What another user tries: the socket, the sender's descriptors, and to write to what was sent.
fn as_another_user(meeting: &Meeting, parent: u32, mut socket: UnixStream) -> Result<(), String> {
    become_nobody()?;
    is_denied("the socket", UnixStream::connect(meeting.path()))?;
    // The parent makes its arrays now: this process has no descriptor of them from the fork.
    socket.write_all(&[1]).map_err(said)?;
    let mut numbers = [0; 4];
    socket.read_exact(&mut numbers).map_err(said)?;
    let secret = i32::from_le_bytes(numbers);
    is_denied("/proc", File::open(format!("/proc/{parent}/fd/{secret}")))?;
    is_denied("the sender's memory", File::open(format!("/proc/{parent}/mem")))?;

    let mut receiver = Receiver::new(socket, [Device::host()]);
    let array = receiver.receive().map_err(said)?.ok_or("nothing came")?;
    if !array.equals(&shareable(50)).map_err(said)? {
        return Err("something else came".into());
    }
    Ok(())
}

/// Memory that was sent is read, and written by nobody.
fn cannot_write(socket: UnixStream) -> Result<(), String> {
    become_nobody()?;
    let mut first = [0];
    (&socket).read_exact(&mut first).map_err(said)?;
    let (_, descriptors) = taken_apart(&socket.into());
    let [memory] = &descriptors[..] else { return Err("not one descriptor came".into()) };
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let mut file = File::from(memory.try_clone().map_err(said)?);
    is_denied("the memory that came", file.write_all(&[1]))?;
    // The file has no owner's permissions: it is its seals that nobody passes.
    if let Ok(mut again) = File::options().write(true).open(path) {
        is_denied("the memory that came, opened again", again.write_all(&[1]))?;
        let shorter = again.set_len(1);
        is_denied("the length of the memory that came", shorter)?;
    }
    let mut byte = [0];
    file.read_exact(&mut byte).map_err(said)
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only the superuser starts processes of another user");
    }
    is_root
}

// Requirement: SAF-41
#[test]
fn another_user_has_what_was_sent_and_nothing_else() {
    alone(|| {
        if !is_root() {
            return;
        }
        let meeting = Meeting::new("another-user");
        std::fs::set_permissions(meeting.path(), PermissionsExt::from_mode(0o600)).unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        let sends = std::thread::spawn(move || {
            let mut byte = [0];
            here.read_exact(&mut byte).unwrap();
            let (_kept, sent) = (shareable(51), shareable(50));
            // Any descriptor of this process: its own end of the connection.
            here.write_all(&here.as_raw_fd().to_le_bytes()).unwrap();
            let sender = Sender::new(here);
            sender.send(&sent).unwrap();
            sender.wait_until_released(SOON).unwrap()
        });
        let parent = std::process::id();
        forked(|| as_another_user(&meeting, parent, there));
        assert!(sends.join().unwrap());
    });
}

// Requirement: SAF-41
#[test]
fn another_user_writes_to_no_memory_that_was_sent() {
    alone(|| {
        if !is_root() {
            return;
        }
        let (mut here, there) = UnixStream::pair().unwrap();
        let array = shareable(50);
        here.write_all(&[1]).unwrap();
        let sender = Sender::new(here);
        sender.send(&array).unwrap();
        forked(|| cannot_write(there));
        assert!(array.equals(&shareable(50)).unwrap());
    });
}
