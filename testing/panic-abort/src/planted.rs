//! A panic in an owner's `Drop`, met where the library releases for a foreign caller and where it
//! releases later.
//!
//! Each is run in a process of its own, because one of the two ways ends it.

use std::process::{Command, ExitCode};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, Buffer, DataType, DeviceId, Error};
use arrow_device_sim::Sim;

use crate::{Check, expect};

pub(crate) const CHECKS: &[Check] = &[
    ("a_panic_inside_a_release_callback", || in_a_process_of_its_own("release")),
    ("a_panic_inside_a_deferred_release", || in_a_process_of_its_own("deferred")),
];

/// What a process prints that lives on.
const ALIVE: &str = "alive, with one release that went wrong";

/// Memory whose owner panics when it is let go.
struct Planted;

impl Drop for Planted {
    #[allow(clippy::panic)]
    fn drop(&mut self) {
        panic!("planted");
    }
}

fn in_a_process_of_its_own(plant: &str) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    let output = command.arg(plant).env("RUST_BACKTRACE", "0").output();
    let output = output.map_err(|error| error.to_string())?;
    let [printed, complaint] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let seen = || format!("{}\n{printed}\n{complaint}", output.status);
    expect(complaint.contains("planted"), || format!("the panic was not met: {}", seen()))?;
    let lives = output.status.success() && printed.contains(ALIVE);
    if cfg!(panic = "unwind") {
        expect(lives, || format!("the panic was not caught and counted: {}", seen()))
    } else {
        expect(!lives && was_aborted(output.status), || format!("it went on: {}", seen()))
    }
}

#[cfg(unix)]
fn was_aborted(status: std::process::ExitStatus) -> bool {
    const SIGABRT: i32 = 6;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGABRT)
}

#[cfg(not(unix))]
fn was_aborted(status: std::process::ExitStatus) -> bool {
    !status.success()
}

/// The process of its own.
pub(crate) fn run(plant: &str) -> ExitCode {
    let met = match plant {
        "release" => release(),
        "deferred" => deferred(),
        _ => return ExitCode::from(2),
    };
    match met {
        Ok(()) if arrow_device::deferred::held_back().abandoned == 1 => {
            println!("{ALIVE}");
            ExitCode::SUCCESS
        }
        Ok(()) => {
            println!("{} releases went wrong", arrow_device::deferred::held_back().abandoned);
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A consumer in C releases the array: the panic must not reach it.
fn release() -> Result<(), Error> {
    let mut c_array = ArrowDeviceArray::empty();
    planted_array(DeviceId::CPU)?.export(&mut c_array)?;
    if let Some(release) = c_array.array.release {
        // SAFETY: just exported, and not released.
        unsafe { release(&raw mut c_array.array) }
    }
    Ok(())
}

/// The array is let go while a queue uses it, and released when that is over: the panic must not
/// reach whoever asks.
fn deferred() -> Result<(), Error> {
    let sim = Sim::builder().backtraces(false).build();
    let device = sim.device();
    let queue = device.open_queue()?;
    let mut memory = queue.allocate(64)?;
    // The software device does nothing until it is told to.
    sim.fill(&queue, memory.spot(&queue)?, 64, 1)?;
    let array = planted_array(device.id())?;
    drop(array.on(&queue)?);
    drop(array);
    sim.run_until_idle();
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))
}

fn planted_array(device: DeviceId) -> Result<Array, Error> {
    static BYTES: [u64; 8] = [0; 8];
    // SAFETY: 64 bytes that live for ever, and that threads can reach as well as the host.
    let buffer = unsafe { Buffer::foreign(device, BYTES.as_ptr().cast(), 64, Planted) };
    Array::builder(DataType::Int64).len(8).buffers([None, Some(buffer)]).finish_ready()
}
