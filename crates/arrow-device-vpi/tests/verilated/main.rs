//! A verilated design in the process of its host.
#![cfg(unix)]
#![allow(clippy::panic, clippy::unwrap_used)]

#[path = "../../examples/accelerator/sums.rs"]
mod sums;
#[path = "../../examples/verilated/verilate.rs"]
mod verilate;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use arrow_device::{Array, DataType, Device, ErrorKind};
use arrow_device_testkit::kinds::{cases_of, types};
use arrow_device_testkit::required::skip;
use arrow_device_testkit::suite::Suite;
use arrow_device_vpi::{Options, Simulator};

/// One thread at a time may call Verilator's VPI.
static ONE: Mutex<()> = Mutex::new(());

/// A design that runs on a thread, and the right to run one.
struct Running {
    device: Device,
    model: JoinHandle<i32>,
    _one: MutexGuard<'static, ()>,
}

impl Running {
    /// Ends the device, and returns what the main loop returned.
    fn end(self) -> i32 {
        drop(self.device);
        assert!(arrow_device_testkit::release_until(|| self.model.is_finished()));
        self.model.join().unwrap()
    }
}

/// The accelerator of the example with what tests need; `None` where there is no Verilator.
fn design() -> Option<(verilate::Design, MutexGuard<'static, ()>)> {
    if let Err(reason) = verilate::is_available() {
        skip("verilator", &reason);
        return None;
    }
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sources = ["design/ram_with_dma.v", "examples/accelerator/sum.v", "tests/designs/extra.v"];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verilated");
    // The runtime library takes half the time to compile without optimization.
    let quick = ["-MAKEFLAGS", "OPT_FAST=-O0", "-MAKEFLAGS", "OPT_GLOBAL=-O0"];
    Some((verilate::Design::build(&sources, &folder, &quick).unwrap(), one))
}

fn run() -> Option<Running> {
    run_as(|options| options)
}

fn run_as(change: impl FnOnce(Options) -> Options) -> Option<Running> {
    let (design, one) = design()?;
    let (socket, model) = design.run().unwrap();
    let device = arrow_device_vpi::open_with(&change(Options::connection(socket))).unwrap();
    Some(Running { device, model, _one: one })
}

/// The path of something that only the tests' design has.
fn extra(name: &str) -> String {
    format!("arrow_device_top.extra.{name}")
}

#[test]
fn the_accelerator_sums_in_the_process_of_its_host() {
    let Some(running) = run() else { return };
    assert!(running.device.properties().name.starts_with("Verilator"));
    sums::check(&running.device).unwrap();
    let queue = running.device.open_queue().unwrap();
    let column = Array::from_values(DataType::Int32, [Some(5), None, Some(-7)]).unwrap();
    assert_eq!(sums::sum(&queue, &column.copy_to(&queue).unwrap()).unwrap(), [-2, 2]);
    drop(queue);
    assert_eq!(running.end(), 0);
}

#[test]
fn the_suite_passes_on_a_verilated_design() {
    let Some(running) = run() else { return };
    let simulator = Simulator::of(&running.device).unwrap();
    let hold = move |_: &arrow_device::Queue| -> Box<dyn FnOnce()> {
        let hold = simulator.hold();
        Box::new(move || drop(hold))
    };
    let suite = Suite::new(&running.device).over(cases_of(types()).step_by(9));
    let report = suite.holding(&hold).run();
    report.assert();
    assert_eq!(report.cases(), 6 * 92 + 29);
    assert_eq!(running.end(), 0);
}

#[test]
fn registers_of_a_verilated_design_have_their_values() {
    let Some(running) = run() else { return };
    let simulator = Simulator::of(&running.device).unwrap();
    assert_eq!(simulator.value(&extra("narrow")).unwrap(), 0x5a);
    // The module that Verilator puts above the design's may be named or not.
    assert_eq!(simulator.value(&format!("TOP.{}", extra("narrow"))).unwrap(), 0x5a);
    for value in [0, 255] {
        // SAFETY: UNS-15 and UNS-16: the register is connected to nothing.
        unsafe { simulator.set(&extra("narrow"), value) }.unwrap();
        assert_eq!(simulator.value(&extra("narrow")).unwrap(), value);
    }
    // A net follows the clock, which stands at 0 or at 1.
    let clock = simulator.value("arrow_device_top.clk").unwrap();
    assert_eq!(simulator.value(&extra("inverted")).unwrap(), 1 - clock);
    let refusals = [
        ("arrow_device_top.nothing", "the design has nothing named `arrow_device_top.nothing`"),
        ("arrow_device_top.ram", "is no register and no net"),
        ("arrow_device_top.extra.wide", "has 4096 bits, and the simulator reads 2016 at most"),
    ];
    for (name, why) in refusals {
        let refused = simulator.value(name).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    // What has no bits reads as nothing, and ends neither the program nor the device.
    assert_eq!(simulator.value(&extra("fraction")).unwrap(), 0);
    assert_eq!(simulator.unknown_bytes(), 0);
    assert_eq!(running.end(), 0);
}

/// The main loop goes from one edge of the clock to the next one, every 5 units of time.
#[test]
fn a_run_ends_at_the_first_moment_of_the_design_that_is_late_enough() {
    let Some(running) = run() else { return };
    let simulator = Simulator::of(&running.device).unwrap();
    simulator.run(10).unwrap();
    let before = simulator.time();
    simulator.run(12).unwrap();
    assert_eq!((before % 5, simulator.time() - before), (0, 15));
    assert_eq!(running.end(), 0);
}

#[test]
fn the_end_of_a_verilated_simulation_is_the_loss_of_the_device() {
    let Some(running) = run() else { return };
    let simulator = Simulator::of(&running.device).unwrap();
    // SAFETY: UNS-15 and UNS-16: the design ends the simulation, and touches no memory.
    unsafe { simulator.set(&extra("ends"), 1) }.unwrap();
    let lost = simulator.run(1000).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::DeviceLost);
    assert!(lost.to_string().contains("the design has ended the simulation at time "), "{lost}");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_job_that_does_not_end_is_given_up_at_its_limit() {
    let Some(running) = run_as(|options| options.time_limit(500)) else { return };
    let simulator = Simulator::of(&running.device).unwrap();
    let queue = running.device.open_queue().unwrap();
    let job = arrow_device_vpi::Job::new(extra("narrow"), extra("wide"));
    // SAFETY: UNS-15 and UNS-16: the job is refused.
    unsafe { simulator.submit(&queue, job) }.unwrap();
    assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
    let queue = running.device.open_queue().unwrap();
    let job = arrow_device_vpi::Job::new(extra("narrow"), "arrow_device_top.ram.error");
    // SAFETY: UNS-15 and UNS-16: the registers are connected to nothing.
    unsafe { simulator.submit(&queue, job) }.unwrap();
    let lost = queue.synchronize().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::DeviceLost);
    assert!(lost.to_string().contains("a job of the design did not end"), "{lost}");
    drop(queue);
    assert_eq!(running.end(), 0);
}

#[test]
fn a_connection_is_that_of_one_device() {
    let Some((design, _one)) = design() else { return };
    let (socket, model) = design.run().unwrap();
    let options = Options::connection(socket);
    let device = arrow_device_vpi::open_with(&options).unwrap();
    let refused = arrow_device_vpi::open_with(&options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    drop(device);
    assert_eq!(model.join().unwrap(), 0);
}
