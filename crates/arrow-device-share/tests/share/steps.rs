//! One side is killed at each step of the protocol: before and after each call of the system that
//! it makes. The other side has whole arrays, and lets go of everything.
//!
//! 1. The side that is killed is a child of `fork`, which this process traces by `ptrace`: the
//!    system stops the child before and after each call.
//! 2. At the stop whose number is that of the round, the child is killed. Where the child comes to
//!    its end before that stop, the rounds before have killed it everywhere.
//! 3. The other side is a thread of this process, which has nothing of the child but the
//!    connection.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use arrow_device::{Array, Batch, Device, ErrorKind};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::release_until;
use arrow_device_testkit::required::skip;
use libc::{c_int, c_long, pid_t};

use crate::early::{held_up, software};
use crate::processes::rounds;
use crate::support::{SOON, batch};

/// How many arrays one side sends to the other.
const ARRAYS: usize = 3;

/// The array of this number, the same in both processes. The message about the schema of one of
/// them is long enough to lie in memory of its own.
fn array(number: usize) -> Array {
    let rows = 5 * number as i64;
    if number != 1 {
        return batch(rows).as_array().clone();
    }
    let column = batch(rows).column(0).unwrap();
    Batch::from_columns([("long ".repeat(10_000), column)]).unwrap().as_array().clone()
}

fn send(sender: &Sender, device: &Device) {
    for number in 0..ARRAYS {
        if let Err(error) = sender.send(&to_shareable(&array(number), device).unwrap()) {
            assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
            return;
        }
    }
}

fn wait(sender: &Sender) {
    assert!(sender.wait_until_released(SOON).unwrap());
    assert_eq!(sender.held().unwrap(), 0);
}

/// As many arrays as are sent, or those that came before the end of the sender.
fn receive(receiver: &mut Receiver) -> Vec<Array> {
    let mut came = Vec::new();
    while came.len() < ARRAYS
        && let Some(array) = next(receiver)
    {
        came.push(array);
    }
    came
}

fn next(receiver: &mut Receiver) -> Option<Array> {
    receiver.receive().unwrap_or_else(|error| {
        // The end may be in the middle of a message.
        assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
        None
    })
}

fn sends(socket: UnixStream) {
    let sender = Sender::new(socket);
    send(&sender, &Device::host());
    wait(&sender);
}

fn receives(socket: UnixStream) {
    let mut receiver = Receiver::new(socket, [Device::host()]);
    for (number, came) in receive(&mut receiver).into_iter().enumerate() {
        assert!(came.equals(&array(number)).unwrap(), "{number}");
    }
    assert!(next(&mut receiver).is_none());
}

fn sends_early(socket: UnixStream) {
    let (sim, device) = held_up();
    let sender = Sender::new(socket).early();
    send(&sender, &device);
    sim.run_until_idle();
    wait(&sender);
}

fn receives_early(socket: UnixStream) {
    let (_sim, device) = software();
    let mut receiver = Receiver::new(socket, [device]).taking_early(Duration::from_secs(60));
    for (number, came) in receive(&mut receiver).into_iter().enumerate() {
        match came.to_host() {
            Ok(came) => assert!(came.equals(&array(number)).unwrap(), "{number}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
                assert!(error.to_string().contains("has ended before"), "{error}");
            }
        }
    }
    assert!(next(&mut receiver).is_none());
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At the stop of the round.
    Killed,
    /// By itself, and without an error, before that stop.
    Well,
    /// At its beginning: the system admits no tracing.
    Untraced,
}

/// The code with which a child ends that cannot be traced.
const UNTRACED: c_int = 77;
/// How a stop before or after a call shows, with `PTRACE_O_TRACESYSGOOD`.
const CALL: c_int = libc::SIGTRAP | 0x80;

/// Runs one side in a child, which is killed at its stop of this number, and the other side here.
fn killed_at(stop: usize, victim: fn(UnixStream), survivor: fn(UnixStream)) -> End {
    let (here, there) = UnixStream::pair().unwrap();
    // SAFETY: a call without arguments. The child ends without a return from here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process to be had: {}", std::io::Error::last_os_error());
    if child == 0 {
        drop(here);
        is_traced(|| victim(there));
    }
    drop(there);
    std::thread::scope(|scope| {
        let survives = scope.spawn(|| survivor(here));
        let end = until(child, stop);
        if !matches!(end, Ok(End::Well | End::Untraced)) {
            // SAFETY: the child is ours and has not been waited for to its end.
            let _ = unsafe { libc::kill(child, libc::SIGKILL) };
            while libc::WIFSTOPPED(status_of(child)) {}
        }
        survives.join().unwrap();
        end.unwrap()
    })
}

/// The child.
fn is_traced(body: impl FnOnce()) -> ! {
    let code = if ask(libc::PTRACE_TRACEME as c_long, 0, 0) {
        // SAFETY: a call with a number alone. The child goes on when it is told to.
        let _ = unsafe { libc::raise(libc::SIGSTOP) };
        // A child that hangs is one that fails.
        // SAFETY: a call with a number alone.
        let _ = unsafe { libc::alarm(60) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        c_int::from(outcome.is_err())
    } else {
        UNTRACED
    };
    // SAFETY: ends the child at once, without the handlers of the parent's.
    unsafe { libc::_exit(code) }
}

/// Lets a child go on until its stop of this number, or until its end.
fn until(child: pid_t, stop: usize) -> Result<End, String> {
    let begun = status_of(child);
    if !libc::WIFSTOPPED(begun) {
        let is_untraced = libc::WIFEXITED(begun) && libc::WEXITSTATUS(begun) == UNTRACED;
        return if is_untraced { Ok(End::Untraced) } else { Err(format!("began with {begun:#x}")) };
    }
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    if !ask(libc::PTRACE_SETOPTIONS as c_long, child, options as usize) {
        return Err("the child takes no options".into());
    }
    let (mut stops, mut signal) = (0, 0);
    loop {
        if !ask(libc::PTRACE_SYSCALL as c_long, child, signal as usize) {
            return Err("the child does not go on".into());
        }
        let status = status_of(child);
        if !libc::WIFSTOPPED(status) {
            return if status == 0 {
                Ok(End::Well)
            } else {
                Err(format!("ended with {status:#x}"))
            };
        }
        match libc::WSTOPSIG(status) {
            CALL if stops == stop => return Ok(End::Killed),
            CALL => (stops, signal) = (stops + 1, 0),
            other => signal = other,
        }
    }
}

/// Waits until a child stops or ends.
fn status_of(child: pid_t) -> c_int {
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    let waited = unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
    if waited == child { status } else { -1 }
}

/// One request about a child, or about this process. Returns whether the system did it.
fn ask(request: c_long, child: pid_t, data: usize) -> bool {
    let address = 0_usize;
    // SAFETY: a request about another process, or about being traced, that reads and writes nothing
    // here.
    unsafe { libc::syscall(libc::SYS_ptrace, request, child, address, data) >= 0 }
}

/// How many mappings of memory that processes share this process has.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:arrow-device")).count()
}

/// Kills one side everywhere, as often as this run asks for.
fn is_killed_everywhere(victim: fn(UnixStream), survivor: fn(UnixStream)) {
    alone(|| {
        // What is made by the first use stays.
        if killed_at(usize::MAX, victim, survivor) == End::Untraced {
            return skip("ptrace", "the system admits no tracing of a process");
        }
        let now = || (descriptors(), Device::host().held().allocated, mappings());
        let before = now();
        let mut kills = 0;
        while kills < rounds(1) {
            let mut stop = 0;
            while killed_at(stop, victim, survivor) == End::Killed {
                stop += 1;
            }
            assert!(stop > 50, "{stop} stops of a side that makes more calls");
            kills += stop as u64;
        }
        println!("killed {kills} times");
        assert!(release_until(|| now() == before), "{before:?}, {:?}", now());
    });
}

// Requirement: SAF-42
#[test]
fn a_receiver_that_is_killed_before_and_after_each_call_leaves_nothing_behind() {
    is_killed_everywhere(receives, sends);
}

// Requirement: SAF-42
#[test]
fn a_sender_that_is_killed_before_and_after_each_call_leaves_whole_arrays_or_none() {
    is_killed_everywhere(sends, receives);
}

// Requirement: SAF-42
#[test]
fn a_receiver_of_early_arrays_that_is_killed_before_and_after_each_call_leaves_nothing_behind() {
    is_killed_everywhere(receives_early, sends_early);
}

// Requirement: SAF-43
#[test]
fn an_early_sender_that_is_killed_before_and_after_each_call_leaves_data_or_an_error() {
    is_killed_everywhere(sends_early, receives_early);
}
