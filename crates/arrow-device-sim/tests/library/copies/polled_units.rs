//! Copies that are polled, from places between the units of a device that copies whole units.

use std::sync::Arc;

use arrow_device::copy::{Job, Options, Way};
use arrow_device::deferred::release_finished;
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Queue, Result};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::{recipe, release_until};

use super::coarse::{CoarseLog, coarse};
use super::polled::polled;

const KINDS: [Kind; 4] = [Kind::Discrete, Kind::Handles, Kind::OneQueue, Kind::HostReadable];
const UNITS: [u64; 6] = [2, 4, 8, 16, 64, 512];

/// Two devices of units of one runtime.
struct Pair {
    sim: Sim,
    devices: [Device; 2],
    logs: [Arc<CoarseLog>; 2],
}

impl Pair {
    fn new(builder: Builder, units: [u64; 2]) -> Self {
        let sim = builder.backtraces(false).build();
        let (one, log) = coarse(&sim.device(), units[0]);
        let (other, another) = coarse(&sim.device_number(1), units[1]);
        Self { sim, devices: [one, other], logs: [log, another] }
    }

    /// Polls a copy that calls nothing that may wait.
    fn copied(&self, array: &Array, queue: &Queue, options: &Options) -> Array {
        self.logs.iter().for_each(|log| drop(log.take_waits()));
        let copy = polled(&self.sim, array.copy_polled(queue, options));
        let copy = copy.unwrap_or_else(|error| panic!("{error}: {array:?}"));
        for log in &self.logs {
            assert_eq!(log.take_waits(), Vec::<&str>::new(), "to {queue:?}: {array:?}");
            assert_eq!(log.mistakes(), Vec::<String>::new(), "to {queue:?}: {array:?}");
        }
        copy
    }

    /// Copies to the host, within the device, to the other device and from there to the host.
    fn assert_travels(&self, there: &Array, expected: &Array, options: &Options) {
        let [one, other] = self.devices.each_ref().map(|device| device.open_queue().unwrap());
        let back = self.copied(there, &Queue::host(), options);
        assert!(back.equals(expected).unwrap(), "fetched: {there:?}");
        let within = self.copied(there, &one, &options.clone().always(true));
        let further = self.copied(there, &other, options);
        for copy in [within, further] {
            let back = self.copied(&copy, &Queue::host(), options);
            back.validate().unwrap();
            assert!(back.equals(expected).unwrap(), "{there:?}");
        }
    }

    fn finish(self) {
        let Self { sim, devices, logs } = self;
        drop((devices, logs));
        assert!(release_until(|| {
            sim.run_until_idle();
            release_finished();
            sim.allocated() == 0
        }));
        assert!(sim.finish().is_empty());
    }
}

/// Devices that reach each other, that do not, and of which the other one has larger units.
fn pairs(kind: Kind, unit: u64) -> [Pair; 3] {
    let builder = || Sim::builder().kind(kind).parts(true);
    [
        Pair::new(builder().peers(2), [unit, unit]),
        Pair::new(builder().devices(2), [unit, unit]),
        Pair::new(builder().peers(2), [unit, 2 * unit]),
    ]
}

// Requirement: SAF-21
#[test]
fn slices_of_all_types_travel_without_a_wait_whatever_the_unit() {
    for kind in KINDS {
        for pair in UNITS.into_iter().flat_map(|unit| pairs(kind, unit)) {
            let queue = pair.devices[0].open_queue().unwrap();
            for recipe in recipe::samples() {
                let array = recipe.build().unwrap();
                let start = array.len() / 3;
                let part = array.slice(start, array.len() / 2).unwrap();
                for options in [Options::new().chunk(64), Options::new().separate(true)] {
                    let untrimmed = options.clone().trim(false);
                    let there = pair.copied(&array, &queue, &untrimmed);
                    let there = there.slice(start, array.len() / 2).unwrap();
                    pair.assert_travels(&there, &part, &options);
                }
            }
            drop(queue);
            pair.finish();
        }
    }
}

/// A buffer of the first device that begins so many bytes behind a unit.
fn part_at(pair: &Pair, lead: usize, bytes: &[u8]) -> Buffer {
    let whole: Vec<u8> = std::iter::repeat_n(0xdd, lead).chain(bytes.iter().copied()).collect();
    let queue = pair.devices[0].open_queue().unwrap();
    let mut memory = queue.allocate(whole.len() as u64).unwrap();
    memory.write(&queue, &whole).unwrap();
    memory.into_buffer().slice(lead as u64, bytes.len() as u64).unwrap()
}

// Requirement: SAF-21
#[test]
fn parts_of_buffers_that_begin_between_units_travel_without_a_wait() {
    let texts = Array::from_texts(DataType::Utf8, (0..200).map(|row| Some(format!("word {row}"))));
    let texts = texts.unwrap();
    for kind in [Kind::Discrete, Kind::HostReadable, Kind::OneQueueReadable] {
        for pair in UNITS.into_iter().flat_map(|unit| pairs(kind, unit)) {
            for lead in [1, 3, 4] {
                let host = texts.host().unwrap();
                let part = |index| part_at(&pair, lead, &host.buffer(index).unwrap());
                let (offsets, bytes) = (part(1), part(2));
                let there = Array::builder(DataType::Utf8)
                    .device(pair.devices[0].id())
                    .len(texts.len())
                    .buffers([None, Some(offsets), Some(bytes)])
                    .finish_ready()
                    .unwrap();
                for options in [Options::new().chunk(64), Options::new().separate(true)] {
                    pair.assert_travels(&there, &texts, &options);
                    let (there, part) = (there.slice(77, 100), texts.slice(77, 100));
                    pair.assert_travels(&there.unwrap(), &part.unwrap(), &options);
                }
            }
            pair.finish();
        }
    }
}

/// Offsets of a copy between two devices come by the host. The queue that reads them there would
/// read past the end of memory that has no such units as its own device copies.
#[test]
fn a_queue_of_larger_units_reads_nothing_of_a_peer_with_smaller_ones() {
    let sim = Sim::builder().peers(3).backtraces(false).build();
    let [one, two] =
        [sim.device(), sim.device_number(1)].map(|device| device.open_queue().unwrap());
    let (coarse, _) = coarse(&sim.device_number(2), 64);
    let through = coarse.open_queue().unwrap();
    let array = Array::from_texts(DataType::Utf8, [Some("one"), Some("two")]).unwrap();
    let there = array.copy_to(&one).unwrap();
    let options = Options::new().through(&through);
    for error in [
        there.copy_with(&two, &options).unwrap_err(),
        there.copy_polled(&two, &options).unwrap_err(),
        there.copy_with(&Queue::host(), &options).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
        assert!(error.to_string().contains("units of 64 bytes"), "{error}");
    }
}

/// A slice of texts there, within the device, to the other device and back, each begun and polled
/// until it is done or fails.
fn odd_journey(sim: &Sim, unit: u64, options: &Options) -> Result<Array> {
    let [one, other] =
        [sim.device(), sim.device_number(1)].map(|device| coarse(&device, unit).0.open_queue());
    let (one, other) = (one?, other?);
    let array = texts();
    let there = polled(sim, array.copy_polled(&one, &options.clone().trim(false)))?;
    let part = there.slice(3, 20)?;
    let within = polled(sim, part.copy_polled(&one, &options.clone().always(true)))?;
    let further = polled(sim, within.slice(1, 9)?.copy_polled(&other, options))?;
    polled(sim, further.slice(1, 7)?.copy_polled(&Queue::host(), options))
}

fn texts() -> Array {
    let words = (0..30).map(|row| Some(format!("word {row}")));
    Array::from_texts(DataType::Utf8, words).unwrap()
}

// Requirement: SAF-13, SAF-14
#[test]
fn any_call_that_fails_between_units_ends_the_copy_and_leaves_nothing() {
    let expected = texts().slice(5, 7).unwrap();
    for kind in KINDS {
        for (unit, separate) in [(16, false), (16, true), (512, true)] {
            let options = Options::new().chunk(64).separate(separate);
            let work = |sim: &Sim| {
                match odd_journey(sim, unit, &options) {
                    Ok(back) => assert!(back.equals(&expected).unwrap()),
                    Err(error) => {
                        let kinds = [
                            ErrorKind::OutOfMemory,
                            ErrorKind::Driver,
                            ErrorKind::DeviceLost,
                            ErrorKind::WorkFailed,
                        ];
                        assert!(kinds.contains(&error.kind()), "{error}");
                    }
                }
                sim.run_until_idle();
                release_finished();
            };
            for peers in [true, false] {
                let builder = || {
                    let builder =
                        Sim::builder().kind(kind).parts(true).may_wait(false).backtraces(false);
                    if peers { builder.peers(2) } else { builder.devices(2) }
                };
                let runs = builder().for_each_fault(work);
                assert!(runs > 20, "{runs}");
                builder().for_each_late_failure(work);
            }
        }
    }
}

#[test]
fn a_copy_from_between_two_units_is_the_executors() {
    let pair = Pair::new(Sim::builder().kind(Kind::Discrete).peers(2), [16, 16]);
    let there = Array::builder(DataType::UInt8)
        .len(40)
        .buffers([None, Some(part_at(&pair, 3, &[7; 40]))])
        .finish_ready()
        .unwrap();
    for (device, log) in pair.devices.iter().zip(&pair.logs) {
        let queue = device.open_queue().unwrap();
        let plan = there.plan_copy(&queue, &Options::new().always(true)).unwrap();
        let ways: Vec<Way> =
            plan.hops().iter().filter(|hop| hop.bytes > 0).map(|hop| hop.way).collect();
        assert_eq!(ways, [Way::ToHost, Way::FromHost], "{plan}");
        drop(log.take_waits());
        let error = plan.start(&|job: Job| drop(job)).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(log.take_waits(), Vec::<&str>::new(), "who starts a copy waits for nothing");
    }
    drop(there);
    pair.finish();
}
