//! Copies that are polled wait for nothing, although the vendors' copies of plain memory do.

use arrow_device::copy::{Options, PolledCopy};
use arrow_device::{Array, DataType, Device, ErrorKind, Queue, Result};
use simulated_gpu_drivers::Vendor;

use crate::{Bench, Kind, Machine};

/// A driver whose devices go on only where somebody waits.
pub fn bench(vendor: Vendor) -> Bench {
    Bench::with(vendor, |driver| driver.patience(0).pageable_waits(true))
}

fn texts() -> Array {
    let texts = (0..3000).map(|n| (n % 7 > 0).then(|| "word ".repeat(n % 4)));
    let texts: Vec<Option<String>> = texts.collect();
    let array = Array::from_texts(DataType::Utf8, texts.iter().map(Option::as_deref)).unwrap();
    array.slice(1000, 1500).unwrap()
}

/// Has work on a queue that ends when somebody waits.
fn keep_busy(machine: &Machine, queue: &Queue) {
    let stream = queue.raw().bits() as u64;
    let launched = machine.entered(|| machine.sim.kernel("slow").launch(stream, |_| {}));
    assert_eq!(launched, 0);
}

/// Begins a copy and polls it to the end: nothing of that waits for these queues.
fn polled(
    what: &str,
    machine: &Machine,
    queues: &[&Queue],
    begin: impl FnOnce() -> Result<PolledCopy>,
) -> Array {
    let without_a_wait = |work: &mut dyn FnMut() -> Result<Option<Array>>| {
        queues.iter().for_each(|queue| keep_busy(machine, queue));
        let result = work().unwrap_or_else(|error| panic!("{what}: {error}"));
        for (number, queue) in queues.iter().enumerate() {
            assert!(!queue.is_idle().unwrap(), "{what}: queue {number} was waited for");
        }
        queues.iter().for_each(|queue| queue.synchronize().unwrap());
        result
    };
    let (mut begin, mut copy) = (Some(begin), None);
    without_a_wait(&mut || {
        copy = begin.take().map(|begin| begin()).transpose()?;
        Ok(None)
    });
    let mut copy = copy.unwrap();
    for _ in 0..100 {
        if let Some(result) = without_a_wait(&mut || copy.poll()) {
            return result;
        }
    }
    panic!("{what}: no end")
}

/// There, within, to a peer, by the host to another kind, and back.
pub fn no_copy_waits(machine: &Machine) {
    let texts = texts();
    let options = Options::new().always(true);
    for kind in machine.kinds().iter().filter(|kind| **kind != Kind::Host) {
        let device: Device = machine.open(0, *kind);
        let other = machine.open(1, *kind);
        let queues = [&device, &other].map(|device| device.open_queue().unwrap());
        let [queue, others] = &queues;
        let both = [queue, others];
        let begin = || texts.copy_polled(queue, &options);
        let there = polled("there", machine, &both, begin);
        let part = there.slice(100, 1000).unwrap();
        let begin = || part.copy_polled(queue, &options.clone().through(queue));
        let within = polled("within", machine, &both, begin);
        let begin = || part.copy_polled(others, &options.clone().through(queue));
        let peer = polled("to another device", machine, &both, begin);
        let expected = texts.slice(100, 1000).unwrap();
        for (array, through) in [(&within, queue), (&peer, others)] {
            let back = options.clone().through(through);
            let begin = || array.copy_polled(&Queue::host(), &back);
            let back = polled("back", machine, &both, begin);
            assert!(back.equals(&expected).unwrap(), "{kind:?}");
        }
    }
}

/// Copies between two places on the host wait, whatever the memory, and where there is no pinned
/// memory, all others.
pub fn a_copy_that_would_wait_is_refused(machine: &Machine) {
    let pinned = machine.open(0, Kind::Host).open_queue().unwrap();
    let there = texts().copy_to(&pinned).unwrap();
    pinned.synchronize().unwrap();
    let always = Options::new().always(true).through(&pinned);
    let others = machine.open(1, Kind::Host).open_queue().unwrap();
    let ways =
        [(&texts(), &pinned), (&there, &pinned), (&there, &Queue::host()), (&there, &others)];
    for (array, to) in ways {
        keep_busy(machine, &pinned);
        let refused = array.copy_polled(to, &always).and_then(|mut copy| copy.poll());
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(!pinned.is_idle().unwrap());
    }
    pinned.synchronize().unwrap();
    drop((there, others));
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let there = texts().copy_to(&queue).unwrap();
    queue.synchronize().unwrap();
    let name = machine.name("cuMemHostAlloc", "hipHostMalloc");
    keep_busy(machine, &queue);
    (1..=2).for_each(|number| machine.sim.fail(name, number, 304));
    let through = Options::new().always(true).through(&queue);
    let back = there.copy_polled(&Queue::host(), &through).and_then(|mut copy| copy.poll());
    let error = back.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!queue.is_idle().unwrap());
    queue.synchronize().unwrap();
    drop((there, queue));
}
