//! Simulators after the end of the process has begun: nothing is asked of them, and nothing waits.

use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use arrow_device::{Device, ErrorKind, Queue, Result};
use arrow_device_testkit::process::{Child, is_child};
use arrow_device_vpi::{Hold, Job, Simulator};

use crate::support::{self, top};

struct Held {
    device: Device,
    queue: Queue,
    hold: Hold,
    /// What became of a wait that was under way.
    waited: Receiver<Result<()>>,
}

static LAST: Mutex<Option<Held>> = Mutex::new(None);

fn check(held: Held) -> std::result::Result<(), String> {
    let Held { device, queue, hold, waited } = held;
    let simulator = support::simulator(&device);
    // SAFETY: UNS-15 and UNS-16: the job is refused.
    let job = unsafe { simulator.submit(&queue, Job::new("a", "b")) };
    let value = simulator.value(&top("clk")).map(drop);
    for (what, answer) in [("a job", job), ("a value", value), ("time", simulator.run(10))] {
        match answer.map_err(|error| error.kind()) {
            Err(ErrorKind::ShutDown) => {}
            other => return Err(format!("{what}: {other:?}")),
        }
    }
    drop((hold, simulator.hold()));
    // The job is given up in a time on the wall, which may be over before the end has begun.
    match waited.recv().unwrap().map_err(|error| error.kind()) {
        Err(ErrorKind::ShutDown | ErrorKind::DeviceLost) => Ok(()),
        other => Err(format!("a wait ended with {other:?}")),
    }
}

/// Runs after the library's own handler, since it was registered before.
extern "C" fn end() {
    let Some(held) = LAST.lock().unwrap().take() else { return };
    let code = match check(held) {
        Ok(()) => 7,
        Err(message) => {
            eprintln!("after the end has begun: {message}");
            8
        }
    };
    // SAFETY: ends the process with this code.
    unsafe { libc::_exit(code) }
}

// Requirement: SAF-29
#[test]
fn after_the_end_of_the_process_has_begun_nothing_is_asked_of_a_simulator() {
    end_while_a_job_is_waited_for(|simulator, submit| {
        submit();
        simulator.hold()
    });
}

// Requirement: SAF-29
#[test]
fn a_wait_for_a_job_that_is_held_ends_after_the_end_of_the_process_has_begun() {
    end_while_a_job_is_waited_for(|simulator, submit| {
        let hold = simulator.hold();
        submit();
        hold
    });
}

/// Ends a process, a child, in which a job that does not end by itself is waited for. `begin`
/// submits the job, and makes a hold before or after that.
fn end_while_a_job_is_waited_for(begin: impl FnOnce(&Simulator, &dyn Fn()) -> Hold) {
    if !is_child() {
        if support::is_there() {
            let ended = Child::of_this_test().run();
            assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        }
        return;
    }
    // SAFETY: a process that hangs is ended by the signal (POSIX, `alarm`).
    unsafe { libc::alarm(60) };
    // SAFETY: the handler may run at any time.
    assert_eq!(unsafe { libc::atexit(end) }, 0);
    let device = support::with(&support::units().wall_limit(Duration::from_secs(2))).unwrap();
    let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let simulator = support::simulator(&device);
    let hold = begin(&simulator, &|| {
        let job = Job::new(top("stuck_start"), top("stuck_done"));
        // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
        unsafe { simulator.submit(&other, job) }.unwrap();
    });
    let (sender, waited) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(other.synchronize()));
    // A wait that begins after the end is refused at once, so the other thread gets time to wait.
    std::thread::sleep(Duration::from_millis(100));
    *LAST.lock().unwrap() = Some(Held { device, queue, hold, waited });
}
