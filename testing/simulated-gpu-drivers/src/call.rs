//! The one way into the machine: each function of a driver passes here, so each is logged, counted,
//! can be told to fail, and no panic reaches its caller.
//!
//! Nothing runs and nobody waits while the machine is locked: a call that waits says for what, and
//! waits after it.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_device_sim::hardware::{Hardware, Lane, Mark};

use crate::code::{Answer, Code};
use crate::config::Config;
use crate::machine::Machine;
use crate::thread;

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// The arguments that the log shows.
pub(crate) type Arguments<'a> = &'a [(&'static str, u64)];

/// What is to be done once the machine is open to others again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Return,
    /// The host waits.
    ForStream(Lane, usize),
    ForEvent(Mark, usize),
    ForDevice(usize),
    /// The devices finish what they have, and the host learns nothing by that.
    Quiet,
    /// The device makes progress, and the answer stays "not ready".
    Progress,
}

struct Locked(MutexGuard<'static, Option<Machine>>);

impl Locked {
    fn machine(&mut self) -> &mut Machine {
        self.0.get_or_insert_with(|| Machine::new(Config::from_environment()))
    }
}

fn lock() -> Locked {
    Locked(MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Does something with the machine that is no call of the driver.
pub(crate) fn with<R>(act: impl FnOnce(&mut Machine) -> R) -> R {
    act(lock().machine())
}

/// A new machine in place of the old one.
pub(crate) fn replace(config: Config) {
    let machine = Machine::new(config);
    let old = lock().0.replace(machine);
    drop(old);
}

/// The hardware, to be used while the machine is open.
pub(crate) fn hardware() -> Hardware {
    with(|machine| machine.hardware.clone())
}

/// A call that waits for nothing.
pub(crate) fn call(
    name: &'static str,
    arguments: Arguments<'_>,
    body: impl FnOnce(&mut Machine) -> Answer,
) -> i32 {
    call_then(name, arguments, |machine| body(machine).map(|()| Then::Return))
}

/// A call that may have to wait.
pub(crate) fn call_then(
    name: &'static str,
    arguments: Arguments<'_>,
    body: impl FnOnce(&mut Machine) -> Answer<Then>,
) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let answer = begin(name, body).and_then(|(hardware, then)| wait(&hardware, then));
        let code = answer.err().map_or(0, |code| code.0);
        with(|machine| machine.record.end(name, arguments, code));
        code
    }));
    outcome.unwrap_or_else(|payload| {
        // Its drop may panic as well.
        std::mem::forget(payload);
        Code::UNKNOWN.0
    })
}

fn begin(
    name: &'static str,
    body: impl FnOnce(&mut Machine) -> Answer<Then>,
) -> Answer<(Hardware, Then)> {
    let mut locked = lock();
    let machine = locked.machine();
    machine.record.begin(name);
    if thread::with(|thread| thread.in_callback).unwrap_or(false) {
        return Err(machine.misuse(
            "CallInCallback",
            Code::NOT_PERMITTED,
            "A function that a stream calls on the host must not call the driver.",
        ));
    }
    machine.must_be_there()?;
    if let Some(code) = machine.record.planned(name) {
        return Err(Code(code));
    }
    let then = body(machine)?;
    Ok((machine.hardware.clone(), then))
}

fn wait(hardware: &Hardware, then: Then) -> Answer {
    let (waited, device) = match then {
        Then::Return => return Ok(()),
        Then::Quiet => {
            hardware.run_all();
            return Ok(());
        }
        Then::Progress => {
            hardware.run_all();
            return Err(Code::NOT_READY);
        }
        Then::ForStream(lane, device) => (hardware.synchronize(lane), device),
        Then::ForEvent(mark, device) => (hardware.wait_on_host(mark), device),
        Then::ForDevice(device) => (hardware.synchronize_device(device), device),
    };
    with(|machine| {
        machine.take_turns(device);
        machine.trim_pools(device);
        waited.map_err(|error| machine.code_of(&error, device))
    })
}

/// Gives a caller a value through its pointer, which must not be null.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn give<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: `out` is null or may be written, as the caller promises. A caller's memory need not
    // be aligned as Rust's is.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// The entries of an array of the caller's.
///
/// # Safety
/// There are that many, and they may be read.
pub(crate) unsafe fn entries<T: Copy>(first: *const T, count: usize) -> Vec<T> {
    let entry = |number| {
        let place = first.wrapping_add(number);
        // SAFETY: there are that many, and they may be read, as the caller promises. C's arrays
        // need not be aligned as Rust's are.
        unsafe { place.read_unaligned() }
    };
    (0..count).map(entry).collect()
}

/// Gives a caller a text, cut to what there is room for, with a zero at its end.
///
/// # Safety
/// `out` is null or may be written for `len` bytes.
pub(crate) unsafe fn give_text(out: *mut c_char, len: c_int, text: &str) -> Answer {
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1));
    let (false, Some(room)) = (out.is_null(), room) else { return Err(Code::INVALID_VALUE) };
    let bytes = text.bytes().take(room).chain([0]);
    for (number, byte) in bytes.enumerate() {
        let place = out.wrapping_add(number);
        // SAFETY: `out` is null or may be written for `len` bytes, as the caller promises: at most
        // `len` bytes are written.
        unsafe { place.write(byte as c_char) };
    }
    Ok(())
}
