//! The end of a process, and a child of `fork`.

use std::sync::{Arc, Mutex};

use arrow_device::{Array, Device, ErrorKind, Queue};
use arrow_device_testkit::process::{self, Child, forked};

use crate::{Bench, Kind, Machine, numbers};

struct Held {
    array: Array,
    queue: Queue,
    device: Device,
    /// Kept until a queue has passed what was submitted: host memory that is being read, say.
    sent: Arc<()>,
}

fn hold(machine: &Machine) -> Held {
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    let array = numbers().copy_to(&queue).unwrap();
    drop(array.on(&queue).unwrap());
    let sent = Arc::new(());
    queue.keep_until_done(sent.clone());
    assert_eq!(Arc::strong_count(&sent), 2, "the queue is idle already");
    Held { array, queue, device, sent }
}

/// Drops everything; an error where a function of the driver is called, or where something is
/// freed that a queue may still use.
fn drop_silently(machine: &Machine, held: Held, expected: ErrorKind) -> Result<(), String> {
    machine.sim.clear_log();
    let expect = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(what.to_owned()) };
    let kind = |error: Option<arrow_device::Error>| error.map(|error| error.kind());
    expect(kind(held.queue.record().err()) == Some(expected), "an event was recorded")?;
    expect(kind(held.device.allocate(64).err()) == Some(expected), "memory was allocated")?;
    expect(kind(held.array.to_host().err()) == Some(expected), "data was copied")?;
    expect(kind(machine.try_open(0, Kind::Device).err()) == Some(expected), "a device was opened")?;
    let Held { array, queue, device, sent } = held;
    drop(array);
    drop(queue);
    drop(device);
    arrow_device::deferred::release_finished();
    expect(Arc::strong_count(&sent) == 2, "what a queue may still use was freed")?;
    expect(machine.sim.calls() == 0, "the driver was called")
}

pub fn fork(machine: &Machine) {
    let held = hold(machine);
    let array = held.array.clone();
    forked(|| drop_silently(machine, held, ErrorKind::Unsupported));
    // The parent's are as they were.
    array.wait().unwrap();
}

static LAST: Mutex<Option<(&'static Bench, Held)>> = Mutex::new(None);

/// Runs after the library's own handler, since it was registered before.
extern "C" fn drop_what_is_left() {
    let Some((machine, held)) = LAST.lock().unwrap().take() else { return };
    let code = match drop_silently(machine, held, ErrorKind::ShutDown) {
        Ok(()) => 7,
        Err(message) => {
            eprintln!("after the end has begun: {message}");
            8
        }
    };
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

/// Ends a child process whose driver tears itself down in handlers that it has registered late: for
/// a second device. What another thread drops meanwhile calls no driver.
pub fn at_the_end_of_a_second_device(bench: fn() -> Bench) {
    if !process::is_child() {
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        return;
    }
    let bench: &'static Bench = Box::leak(Box::new(bench()));
    drop(bench.open(0, Kind::Device));
    bench.open(1, Kind::Device);
    *LAST.lock().unwrap() = Some((bench, hold(bench)));
    bench.sim.at_its_end(drop_what_is_left);
}

static ASKING: Mutex<Option<&'static Bench>> = Mutex::new(None);

extern "C" fn ask_for_devices() {
    let Some(machine) = ASKING.lock().unwrap().take() else { return };
    machine.sim.clear_log();
    let refused = match machine.is_cuda() {
        true => arrow_device_cuda::devices().map(drop),
        false => arrow_device_rocm::devices().map(drop),
    };
    let kind = refused.err().map(|error| error.kind());
    let is_silent = machine.sim.calls() == 0;
    let code = if kind == Some(ErrorKind::ShutDown) && is_silent { 7 } else { 8 };
    // SAFETY: ends the process with this code.
    unsafe { libc::_exit(code) }
}

/// The same where nobody has opened a device: the driver was initialised to list them.
pub fn at_the_end_of_a_list(bench: fn() -> Bench) {
    if !process::is_child() {
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        return;
    }
    let bench: &'static Bench = Box::leak(Box::new(bench()));
    let found = match bench.is_cuda() {
        true => arrow_device_cuda::devices(),
        false => arrow_device_rocm::devices(),
    };
    assert_eq!(found.unwrap().len(), 2);
    *ASKING.lock().unwrap() = Some(bench);
    bench.sim.at_its_end(ask_for_devices);
}
