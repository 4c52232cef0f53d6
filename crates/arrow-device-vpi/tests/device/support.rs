//! What the tests share: simulators, or the reason why there is none.

use std::path::{Path, PathBuf};

use arrow_device::{Array, DataType, Device};
use arrow_device_testkit::required::skip;
use arrow_device_vpi::{Dma, Options, Simulator};

/// Whether simulators can be started; where that is required, a no is a failure.
pub(crate) fn is_there() -> bool {
    match arrow_device_vpi::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("vpi", &reason.to_string());
            false
        }
    }
}

/// A simulator of this test's own, with the design of the crate.
pub(crate) fn device() -> Option<Device> {
    with(&Options::built_in())
}

/// A simulator of this test's own.
pub(crate) fn with(options: &Options) -> Option<Device> {
    is_there().then(|| arrow_device_vpi::open_with(options).unwrap())
}

/// The design with units for tests.
pub(crate) fn units() -> Options {
    Options::verilog([file("design/ram_with_dma.v"), file("tests/designs/units.v")])
}

/// The design whose engine copies whole words.
pub(crate) fn words() -> Options {
    let register = |name: &str| format!("tb.{name}");
    Options::verilog([file("tests/designs/words.v")])
        .memory("tb.words")
        .dma(Dma {
            start: register("go"),
            done: register("completed"),
            source: register("source"),
            destination: register("destination"),
            length: register("length"),
        })
        .error(None)
        .copy_unit(16)
        .run_first(102)
}

/// The path of something in the design with units.
pub(crate) fn top(name: &str) -> String {
    format!("arrow_device_top.{name}")
}

pub(crate) fn simulator(device: &Device) -> Simulator {
    Simulator::of(device).unwrap()
}

/// Kills a simulator, and waits until the driver has noticed it.
pub(crate) fn kill(simulator: &Simulator) {
    signal(simulator, libc::SIGKILL);
    while !simulator.is_lost() {
        std::thread::yield_now();
    }
}

pub(crate) fn signal(simulator: &Simulator, signal: i32) {
    let process = simulator.process().unwrap() as i32;
    // SAFETY: the process is a child of this one that nobody has waited for (POSIX, `kill`).
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

/// A file of the crate.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(crate) fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap()
}

pub(crate) fn assert_numbers(array: &Array) {
    assert!(array.to_host().unwrap().equals(&numbers()).unwrap());
}
