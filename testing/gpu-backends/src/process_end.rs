//! The end of a process, and a child of `fork`.

use std::sync::Mutex;

use arrow_device::{Array, Device, ErrorKind, Queue};
use arrow_device_testkit::process::{self, Child};

use crate::{Bench, Kind, Machine, numbers};

struct Held {
    array: Array,
    queue: Queue,
    device: Device,
}

fn hold(machine: &Machine) -> Held {
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    let array = numbers().copy_to(&queue).unwrap();
    drop(array.on(&queue).unwrap());
    Held { array, queue, device }
}

/// Drops everything; returns whether no function of the driver was called.
fn drops_silently(machine: &Machine, held: Held) -> bool {
    machine.sim.clear_log();
    let is_refused = held
        .queue
        .record()
        .is_err_and(|error| matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::DeviceLost));
    let Held { array, queue, device } = held;
    drop(array);
    drop(queue);
    drop(device);
    arrow_device::deferred::release_finished();
    is_refused && machine.sim.calls() == 0
}

pub fn fork(machine: &Machine) {
    let held = hold(machine);
    // SAFETY: the child does nothing that another thread of the parent could be in the middle of:
    // the tests of this program take turns.
    match unsafe { libc::fork() } {
        0 => {
            let code = i32::from(!drops_silently(machine, held));
            // SAFETY: ends the child at once, without the handlers of the parent's.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child was just made.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child called the driver, or ended by {status}");
        }
    }
    // The parent's are as they were.
    held.array.wait().unwrap();
}

static LAST: Mutex<Option<(&'static Bench, Held)>> = Mutex::new(None);

/// Runs after the library's own handler, since it was registered before.
extern "C" fn drop_what_is_left() {
    let Some((machine, held)) = LAST.lock().unwrap().take() else { return };
    let code = if drops_silently(machine, held) { 7 } else { 8 };
    // SAFETY: ends the process with this code.
    unsafe { libc::_exit(code) }
}

/// Ends a child process while an array, a queue and a device are held.
pub fn at_the_end(bench: fn() -> Bench) {
    if !process::is_child() {
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        return;
    }
    // SAFETY: the handler may run at any time.
    assert_eq!(unsafe { libc::atexit(drop_what_is_left) }, 0);
    let bench: &'static Bench = Box::leak(Box::new(bench()));
    *LAST.lock().unwrap() = Some((bench, hold(bench)));
}
