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
