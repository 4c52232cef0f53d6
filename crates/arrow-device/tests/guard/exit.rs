//! The end of the process: after it has begun no driver is called, and nothing is freed that a
//! queue may still use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::deferred::{held_back, release_finished, wait_until_released};
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Memory, Queue};
use arrow_device_testkit::process::{Child, is_child};

use crate::trap::{Answer, Op, Trap, call};

/// Alive until the end begins.
struct Held {
    trap: Trap,
    device: Device,
    queue: Queue,
    /// Host memory that a device is reading.
    sent: Memory,
    sent_owner: Arc<()>,
    /// An array in use.
    used: Array,
    used_owner: Arc<()>,
    /// One on the host, that nobody uses.
    settled: Array,
    settled_owner: Arc<()>,
}

impl Held {
    fn new() -> Self {
        let (trap, manual, device) = Trap::open();
        let queue = device.open_queue().unwrap();
        let [sent_owner, used_owner, settled_owner, waiting] =
            std::array::from_fn(|_| Arc::new(()));
        let host = Queue::host();
        let sent = adopted(&host, &sent_owner);
        let used = on(&device, &used_owner);
        let view = used.on(&queue).unwrap();
        manual.submit(&queue);
        drop(view);
        let already_waiting = on(&device, &waiting);
        drop(already_waiting.on(&queue).unwrap());
        drop(already_waiting);
        assert_eq!(held_back().in_use, 1);
        let settled = on(&Device::host(), &settled_owner);
        Self { trap, device, queue, sent, sent_owner, used, used_owner, settled, settled_owner }
    }
}

fn adopted(queue: &Queue, owner: &Arc<()>) -> Memory {
    let bytes: &'static mut [u64; 8] = Box::leak(Box::new([0; 8]));
    let base = arrow_device::driver::Raw::from_ptr(bytes.as_mut_ptr().cast());
    // SAFETY: the bytes stay for ever, and nobody else uses them.
    unsafe { Memory::adopt(queue.device(), base, 64, owner.clone()) }
}

pub(crate) fn on(device: &Device, owner: &Arc<()>) -> Array {
    let address = std::ptr::without_provenance(0x1000);
    // SAFETY: nobody reads it.
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
    let array = Array::builder(DataType::Int64).device(device.id()).len(4);
    array.buffers([None, Some(buffer)]).finish_ready().unwrap()
}

static LAST: Mutex<Option<Held>> = Mutex::new(None);

fn check(held: Held) -> Result<(), String> {
    let expect = |is_so: bool, what: String| if is_so { Ok(()) } else { Err(what) };
    let Held {
        trap,
        device,
        queue,
        mut sent,
        sent_owner,
        used,
        used_owner,
        settled,
        settled_owner,
    } = held;
    let calls = trap.calls();
    for op in Op::ALL {
        let before = held_back().abandoned;
        match call(&**device.driver(), op) {
            Answer::Refused(error) => {
                expect(error.kind() == ErrorKind::ShutDown, format!("{op:?}: {error}"))?;
            }
            Answer::Nothing | Answer::Said(false) => {
                let abandoned = before + usize::from(op.abandons());
                expect(held_back().abandoned == abandoned, format!("{op:?} is not counted"))?;
            }
            other => return Err(format!("{op:?}: {other:?}")),
        }
    }
    // A device reads it: what keeps it is the queue that was told.
    sent.spot(&queue).err().ok_or("a queue is told where memory is")?;
    queue.keep_until_done(sent);
    drop(used);
    drop(settled);
    release_finished();
    let alive = |owner: &Arc<()>| Arc::strong_count(owner) == 2;
    expect(alive(&sent_owner), "host memory under a transfer was freed".into())?;
    expect(alive(&used_owner), "an array in use was freed".into())?;
    expect(!alive(&settled_owner), "a settled host array was not released".into())?;
    // Nobody tells what queues use any more, so nobody waits for it.
    let waited = wait_until_released(Duration::MAX).map_err(|error| error.kind());
    expect(waited == Err(ErrorKind::ShutDown), format!("a wait ended with {waited:?}"))?;
    drop((queue, device));
    expect(trap.calls() == calls, "the driver was called".into())
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
fn after_the_end_has_begun_nothing_in_use_is_freed_and_no_driver_is_called() {
    if !is_child() {
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        return;
    }
    // SAFETY: the handler may run at any time.
    assert_eq!(unsafe { libc::atexit(end) }, 0);
    let held = Held::new();
    *LAST.lock().unwrap() = Some(held);
}
