//! Simulators that die, end or hang: an error, and never a wait without end.

use std::time::Duration;

use arrow_device::{Device, ErrorKind, Queue};
use arrow_device_testkit::process;
use arrow_device_vpi::{Job, Options};

use crate::support::{self, numbers, top};

/// A job that goes on for ever.
fn stuck(device: &Device, queue: &Queue) {
    let job = Job::new(top("stuck_start"), top("stuck_done"));
    // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
    unsafe { support::simulator(device).submit(queue, job) }.unwrap();
}

fn is_lost<T>(answer: arrow_device::Result<T>) -> String {
    let error = answer.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    error.to_string()
}

/// Nothing works any more, and nothing waits.
fn everything_is_lost(device: &Device, queue: &Queue) {
    is_lost(queue.synchronize());
    is_lost(queue.is_idle());
    is_lost(queue.record());
    is_lost(queue.allocate(64));
    is_lost(device.open_queue());
    is_lost(numbers().copy_to(queue));
    is_lost(support::simulator(device).value("arrow_device_top.clk"));
    is_lost(support::simulator(device).run(1));
}

// Requirement: DRV-28
#[test]
fn a_simulator_that_is_killed_is_lost_at_every_step() {
    let Some(device) = support::device() else { return };
    drop(device);
    type Step = fn(&Device, &Queue);
    let steps: [(&str, Step); 6] = [
        ("nothing was done", |_, _| ()),
        ("memory was allocated", |_, queue| drop(queue.allocate(1000).unwrap())),
        ("an array was copied there", |_, queue| drop(numbers().copy_to(queue).unwrap())),
        ("a copy is under way", |_, queue| {
            let mut memory = queue.allocate(2 << 20).unwrap();
            memory.write(queue, &vec![1; 1 << 20]).unwrap();
        }),
        ("a job is under way", stuck),
        ("work waits", |device, queue| {
            std::mem::forget(support::simulator(device).hold());
            stuck(device, queue);
        }),
    ];
    for (name, step) in steps {
        println!("{name}");
        let device = support::with(&support::units()).unwrap();
        let queue = device.open_queue().unwrap();
        let event = queue.record().unwrap();
        step(&device, &queue);
        let awaited = queue.record().unwrap();
        let waiting = std::thread::spawn(move || awaited.synchronize().err());
        support::kill(&support::simulator(&device));
        // Passed before the end, or lost.
        let waited = waiting.join().unwrap().map(|error| error.kind());
        assert!(matches!(waited, None | Some(ErrorKind::DeviceLost)), "{waited:?}");
        let passed = event.is_complete();
        assert!(passed.is_ok_and(|passed| passed) || is_lost(event.synchronize()).contains("gone"));
        everything_is_lost(&device, &queue);
    }
}

#[test]
fn the_error_says_how_the_simulator_ended() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    support::kill(&support::simulator(&device));
    let text = is_lost(queue.synchronize());
    assert!(text.contains("the simulator has closed the connection (signal: 9"), "{text}");
}

#[test]
fn a_design_that_ends_the_simulation_is_lost() {
    let Some(device) = support::with(&support::units()) else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    // SAFETY: UNS-15 and UNS-16: the register changes no memory.
    unsafe { simulator.set(&top("ends"), 1) }.unwrap();
    stuck(&device, &queue);
    let text = is_lost(queue.synchronize());
    assert!(text.contains("the design has ended the simulation at time 5"), "{text}");
    everything_is_lost(&device, &queue);
}

/// The unit may write to the memory at any time, so nothing of it is of use any more.
#[test]
fn a_job_that_does_not_end_in_its_simulated_time_loses_the_device() {
    let Some(device) = support::with(&support::units().time_limit(5000)) else { return };
    let queue = device.open_queue().unwrap();
    stuck(&device, &queue);
    let text = is_lost(queue.synchronize());
    assert!(text.contains("a job of the design did not end, and was given up at time "), "{text}");
    everything_is_lost(&device, &queue);
}

#[test]
fn a_job_that_does_not_end_in_its_time_on_the_wall_loses_the_device() {
    let options = support::units().wall_limit(Duration::from_millis(50));
    let Some(device) = support::with(&options) else { return };
    let queue = device.open_queue().unwrap();
    stuck(&device, &queue);
    let text = is_lost(queue.synchronize());
    assert!(text.contains("a job of the design did not end, and was given up at time "), "{text}");
}

/// The module says that it is at work, so a job may take longer than the simulator may be silent.
#[test]
fn a_simulator_that_works_is_not_silent_and_one_that_is_stopped_is() {
    let options = support::units().patience(Duration::from_secs(2)).wall_limit(Duration::ZERO);
    let Some(device) = support::with(&options) else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    stuck(&device, &queue);
    let event = queue.record().unwrap();
    assert!(!event.wait_timeout(Duration::from_secs(4)).unwrap());
    support::signal(&simulator, libc::SIGSTOP);
    let text = is_lost(event.synchronize());
    assert!(text.contains("the simulator gave no answer within 2s"), "{text}");
    assert!(text.contains("the simulator did not end, and was killed"), "{text}");
}

/// The process of a simulator ends with its device. The folder goes once the simulator has started,
/// so that a process which ends with an open device leaves none.
#[test]
fn a_device_that_is_dropped_ends_its_simulator() {
    // Other tests have folders of their own.
    process::alone(|| {
        let Some(device) = support::device() else { return };
        let simulator = support::simulator(&device);
        let folder = format!("arrow-device-vpi-{}-", std::process::id());
        let left = || {
            let is_ours = |entry: &std::fs::DirEntry| {
                entry.file_name().to_string_lossy().starts_with(&folder)
            };
            std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().filter(is_ours).count()
        };
        assert_eq!(left(), 0);
        let process = simulator.process().unwrap();
        drop(device);
        while !simulator.is_lost() {
            std::thread::yield_now();
        }
        // SAFETY: signal 0 asks whether there is such a process (POSIX, `kill`).
        assert_eq!(unsafe { libc::kill(process as i32, 0) }, -1);
        assert_eq!(left(), 0);
    });
}

/// An interruption by the keyboard goes to the group of the program.
#[test]
fn a_simulator_is_not_in_the_group_of_its_program() {
    let Some(device) = support::device() else { return };
    let process = support::simulator(&device).process().unwrap() as i32;
    // SAFETY: the process is a child of this one that nobody has waited for (POSIX, `getpgid`).
    assert_eq!(unsafe { libc::getpgid(process) }, process);
}

/// Simulated time goes by in leaps where the design does nothing. The module then looks at the host
/// rarely, but not in the next job.
#[test]
fn a_job_is_looked_after_behind_a_leap_of_simulated_time() {
    let sources = ["design/ram_with_dma.v", "tests/designs/gated.v"].map(support::file);
    let wall_limit = Duration::from_millis(50);
    let options = Options::verilog(sources).wall_limit(wall_limit).patience(Duration::from_secs(5));
    let Some(device) = support::with(&options) else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    simulator.run(1 << 42).unwrap();
    // SAFETY: UNS-15 and UNS-16: the register changes no memory.
    unsafe { simulator.set(&top("gate"), 1) }.unwrap();
    stuck(&device, &queue);
    let text = is_lost(queue.synchronize());
    assert!(text.contains("a job of the design did not end, and was given up at time "), "{text}");
}

#[test]
fn a_design_that_ends_at_once_is_an_error_of_open() {
    if !support::is_there() {
        return;
    }
    let sources = [support::file("tests/designs/short.v")];
    let refused = arrow_device_vpi::open_with(&Options::verilog(sources)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Driver);
}
