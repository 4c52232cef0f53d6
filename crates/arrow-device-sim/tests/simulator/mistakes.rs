//! Every mistake of the catalogue is reported on every seed, and its correct twin never is.

use arrow_device::driver::{Raw, Route};
use arrow_device::{Buffer, ErrorKind, Memory};
use arrow_device_sim::{Builder, Kind, Mistake, Schedule, Sim, catalogue};

use crate::support::{Bench, at, forgotten, host, host_mut, region};
use crate::{fillings, host_memory, leaks, names, places, units};

/// A thousand and a little: in seconds, because nothing here sleeps.
const SEEDS: u64 = if cfg!(miri) { 3 } else { 1024 };

/// One mistake and its twin. Both leave nothing behind, unless that is the mistake.
pub(crate) struct Twins {
    pub(crate) name: &'static str,
    pub(crate) mistake: Mistake,
    pub(crate) build: fn() -> Builder,
    pub(crate) wrong: fn(&Bench<'_>),
    pub(crate) right: fn(&Bench<'_>),
}

impl Twins {
    /// A simulator for a seed. Every other one is eager, but where a change by the host has to come
    /// before the copy.
    fn sim(&self, seed: u64) -> Sim {
        let is_late =
            matches!(self.mistake, Mistake::HostSourceChanged | Mistake::HostDestinationChanged);
        let is_late = is_late || seed.is_multiple_of(2);
        let schedule = if is_late { Schedule::Late } else { Schedule::Eager };
        (self.build)().seed(seed).schedule(schedule).backtraces(seed.is_multiple_of(17)).build()
    }
}

/// Those of this file, and those of the files about one subject.
fn all() -> impl Iterator<Item = &'static Twins> {
    ALL.iter()
        .chain(host_memory::TWINS)
        .chain(places::TWINS)
        .chain(leaks::TWINS)
        .chain(fillings::TWINS)
        .chain(units::TWINS)
        .chain(names::TWINS)
}

fn discrete() -> Builder {
    Sim::builder()
}

fn readable() -> Builder {
    Sim::builder().kind(Kind::HostReadable)
}

/// Memory that the wrong twin uses on the queues `one` and `two` and then gives back properly.
pub(crate) fn with_memory(bench: &Bench<'_>, act: impl FnOnce(Raw<Memory>)) {
    let memory = bench.allocate(64);
    act(memory);
    bench.idle();
    bench.free(memory, 64);
}

const ALL: &[Twins] = &[
    Twins {
        name: "a read on another queue, without a wait",
        mistake: Mistake::UnorderedRead,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                bench.consume(&bench.two, memory, 64);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                bench.order(&bench.one, &bench.two);
                bench.consume(&bench.two, memory, 64);
            });
        },
    },
    Twins {
        name: "a wait for an event that was recorded too early",
        mistake: Mistake::UnorderedRead,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let event = bench.one.record().unwrap();
                bench.fill(&bench.one, memory, 64);
                bench.two.wait(&event).unwrap();
                bench.consume(&bench.two, memory, 64);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                let event = bench.one.record().unwrap();
                bench.two.wait(&event).unwrap();
                bench.consume(&bench.two, memory, 64);
            });
        },
    },
    Twins {
        name: "a wait that comes after the work",
        mistake: Mistake::UnorderedRead,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                bench.consume(&bench.two, memory, 64);
                bench.order(&bench.one, &bench.two);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                bench.one.synchronize().unwrap();
                bench.consume(&bench.two, memory, 64);
            });
        },
    },
    Twins {
        name: "a queue that is closed, and another opened, with no wait between",
        mistake: Mistake::UnorderedRead,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let closed = bench.device.open_queue().unwrap();
                bench.fill(&closed, memory, 64);
                let event = closed.record().unwrap();
                drop(closed);
                let next = bench.device.open_queue().unwrap();
                bench.consume(&next, memory, 64);
                next.synchronize().unwrap();
                event.synchronize().unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let closed = bench.device.open_queue().unwrap();
                bench.fill(&closed, memory, 64);
                closed.synchronize().unwrap();
                drop(closed);
                let next = bench.device.open_queue().unwrap();
                bench.consume(&next, memory, 64);
                next.synchronize().unwrap();
            });
        },
    },
    Twins {
        name: "a staging buffer written again before it was read",
        mistake: Mistake::UnorderedWrite,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.consume(&bench.one, memory, 64);
                bench.fill(&bench.two, memory, 64);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.consume(&bench.one, memory, 64);
                bench.order(&bench.one, &bench.two);
                bench.fill(&bench.two, memory, 64);
            });
        },
    },
    Twins {
        name: "two writes, of which one byte overlaps",
        mistake: Mistake::UnorderedWrite,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.sim.fill(&bench.one, at(memory, 0), 33, 1).unwrap();
                bench.sim.fill(&bench.two, at(memory, 32), 32, 2).unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.sim.fill(&bench.one, at(memory, 0), 32, 1).unwrap();
                bench.sim.fill(&bench.two, at(memory, 32), 32, 2).unwrap();
                bench.idle();
                bench.fill(&bench.one, memory, 64);
            });
        },
    },
    Twins {
        name: "memory allocated in the order of a queue, used on another",
        mistake: Mistake::UnorderedWrite,
        build: discrete,
        wrong: |bench| {
            // By the driver: the library orders the queues.
            let driver = bench.device.driver();
            let memory = unsafe { driver.allocate(64, Some(bench.one.raw())) }.unwrap();
            bench.sim.fill(&bench.two, at(memory, 0), 64, 1).unwrap();
            bench.idle();
            bench.free(memory, 64);
        },
        right: |bench| {
            drop(bench.one.allocate(64).unwrap());
            let mut memory = bench.one.allocate(64).unwrap();
            let spot = memory.spot(&bench.two).unwrap();
            bench.sim.fill(&bench.two, spot, 64, 1).unwrap();
        },
    },
    Twins {
        name: "a buffer written after it was shared",
        mistake: Mistake::WriteToShared,
        build: discrete,
        wrong: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            let spot = memory.spot(&bench.one).unwrap();
            let _buffer: Buffer = memory.into_buffer();
            bench.sim.fill(&bench.one, spot, 64, 1).unwrap();
        },
        right: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            let spot = memory.spot(&bench.one).unwrap();
            bench.sim.fill(&bench.one, spot, 64, 1).unwrap();
            let _buffer: Buffer = memory.into_buffer();
        },
    },
    Twins {
        name: "a write while the host reads",
        mistake: Mistake::WriteWhileMapped,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let spot = at(memory, 0);
                let address = unsafe { bench.driver().map(spot, 64) }.unwrap();
                bench.fill(&bench.one, memory, 64);
                unsafe { bench.driver().unmap(spot, 64, address) };
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let spot = at(memory, 0);
                let address = unsafe { bench.driver().map(spot, 64) }.unwrap();
                unsafe { bench.driver().unmap(spot, 64, address) };
                bench.fill(&bench.one, memory, 64);
            });
        },
    },
    Twins {
        name: "the host reads what is not ready",
        mistake: Mistake::UnorderedRead,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                let address = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
                unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                bench.one.record().unwrap().synchronize().unwrap();
                let address = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
                assert_eq!(unsafe { std::slice::from_raw_parts(address.as_ptr(), 64) }, [7; 64]);
                unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
            });
        },
    },
    Twins {
        name: "a use after free",
        mistake: Mistake::UseAfterFree,
        build: discrete,
        wrong: |bench| {
            let memory = bench.allocate(64);
            bench.free(memory, 64);
            bench.consume(&bench.one, memory, 64);
        },
        right: |bench| with_memory(bench, |memory| bench.consume(&bench.one, memory, 64)),
    },
    Twins {
        name: "a byte past the end",
        mistake: Mistake::OutOfBounds,
        build: discrete,
        wrong: |bench| with_memory(bench, |memory| bench.consume(&bench.one, memory, 65)),
        right: |bench| with_memory(bench, |memory| bench.consume(&bench.one, memory, 64)),
    },
    Twins {
        name: "a host address on a device",
        mistake: Mistake::UnknownMemory,
        build: discrete,
        wrong: |bench| {
            let bytes = [0_u8; 8];
            bench.sim.kernel("k").reads(host(&bytes), 8).launch(&bench.one, |_| {}).unwrap();
        },
        right: |bench| with_memory(bench, |memory| bench.consume(&bench.one, memory, 8)),
    },
    Twins {
        name: "memory of a device without peer access",
        mistake: Mistake::UnreachableMemory,
        build: || Sim::builder().devices(2),
        wrong: |bench| {
            let other = bench.sim.device_number(1).open_queue().unwrap();
            with_memory(bench, |memory| bench.consume(&other, memory, 64));
        },
        right: |bench| {
            let other = bench.sim.device_number(1).open_queue().unwrap();
            assert!(other.reaches(bench.device.id()).is_err());
            with_memory(bench, |memory| bench.consume(&bench.one, memory, 64));
        },
    },
    Twins {
        name: "a number added to a handle",
        mistake: Mistake::HandleOffset,
        build: || Sim::builder().kind(Kind::Handles),
        wrong: |bench| {
            with_memory(bench, |memory| {
                let inside = Raw::from_bits(memory.bits() + 8);
                bench.consume(&bench.one, inside, 8);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let kernel = bench.sim.kernel("consume").reads(at(memory, 8), 8);
                kernel.launch(&bench.one, |_| {}).unwrap();
            });
        },
    },
    Twins {
        name: "a device address as host memory",
        mistake: Mistake::DeviceAddressOnHost,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let region = region(at(memory, 0), at(memory, 32), 32);
                bench.copy(&bench.one, Route::FromHost, &[region]).unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let region = region(at(memory, 0), at(memory, 32), 32);
                bench.copy(&bench.one, Route::Within, &[region]).unwrap();
            });
        },
    },
    Twins {
        name: "regions of one copy that overlap",
        mistake: Mistake::OverlappingRegions,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let region = region(at(memory, 0), at(memory, 8), 16);
                bench.copy(&bench.one, Route::Within, &[region]).unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let regions = [
                    region(at(memory, 0), at(memory, 16), 16),
                    region(at(memory, 0), at(memory, 32), 16),
                ];
                bench.copy(&bench.one, Route::Within, &regions).unwrap();
            });
        },
    },
    Twins {
        name: "memory freed before the queue passed",
        mistake: Mistake::FreedInUse,
        build: discrete,
        wrong: |bench| {
            let memory = bench.allocate(64);
            bench.consume(&bench.one, memory, 64);
            bench.free(memory, 64);
        },
        right: |bench| {
            let memory = bench.allocate(64);
            bench.consume(&bench.one, memory, 64);
            bench.one.record().unwrap().synchronize().unwrap();
            bench.free(memory, 64);
        },
    },
    Twins {
        name: "memory freed after a wait for another queue",
        mistake: Mistake::FreedInUse,
        build: discrete,
        wrong: |bench| {
            let memory = bench.allocate(64);
            bench.fill(&bench.one, memory, 64);
            bench.two.synchronize().unwrap();
            bench.free(memory, 64);
        },
        right: |bench| {
            let memory = bench.allocate(64);
            bench.fill(&bench.one, memory, 64);
            bench.order(&bench.one, &bench.two);
            bench.two.synchronize().unwrap();
            bench.free(memory, 64);
        },
    },
    Twins {
        name: "memory freed while the host has it mapped",
        mistake: Mistake::FreedInUse,
        build: readable,
        wrong: |bench| {
            let memory = bench.allocate(64);
            let _ = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
            bench.free(memory, 64);
        },
        right: |bench| {
            let memory = bench.allocate(64);
            let address = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
            unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
            bench.free(memory, 64);
        },
    },
    Twins {
        name: "memory freed twice",
        mistake: Mistake::FreedTwice,
        build: discrete,
        wrong: |bench| {
            let memory = bench.allocate(64);
            bench.free(memory, 64);
            bench.free(memory, 64);
        },
        right: |bench| {
            let memory = bench.allocate(64);
            bench.free(memory, 64);
        },
    },
    Twins {
        name: "memory freed with another length",
        mistake: Mistake::FreedWithWrongLength,
        build: discrete,
        wrong: |bench| bench.free(bench.allocate(64), 60),
        right: |bench| bench.free(bench.allocate(60), 60),
    },
    Twins {
        name: "the source of a copy changed before it was read",
        mistake: Mistake::HostSourceChanged,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let mut bytes = [1_u8; 64];
                let region = region(host_mut(&mut bytes), at(memory, 0), 64);
                bench.copy(&bench.one, Route::FromHost, &[region]).unwrap();
                unsafe { region.from.base.as_ptr().cast::<u8>().write(9) };
                bench.idle();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let mut bytes = [1_u8; 64];
                let region = region(host_mut(&mut bytes), at(memory, 0), 64);
                bench.copy(&bench.one, Route::FromHost, &[region]).unwrap();
                bench.idle();
                unsafe { region.from.base.as_ptr().cast::<u8>().write(9) };
            });
        },
    },
    Twins {
        name: "the destination of a copy written before it arrived",
        mistake: Mistake::HostDestinationChanged,
        build: discrete,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                let mut bytes = [1_u8; 64];
                let region = region(at(memory, 0), host_mut(&mut bytes), 64);
                bench.copy(&bench.one, Route::ToHost, &[region]).unwrap();
                unsafe { region.to.base.as_ptr().cast::<u8>().write(9) };
                bench.idle();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.fill(&bench.one, memory, 64);
                let mut bytes = [1_u8; 64];
                let region = region(at(memory, 0), host_mut(&mut bytes), 64);
                bench.copy(&bench.one, Route::ToHost, &[region]).unwrap();
                bench.idle();
                let first = unsafe { region.to.base.as_ptr().cast::<u8>().read() };
                assert_eq!(first, 7);
            });
        },
    },
    Twins {
        name: "a wait for an event that was never recorded",
        mistake: Mistake::EventNotRecorded,
        build: discrete,
        wrong: |bench| {
            let event = bench.event();
            let _ = unsafe { bench.driver().wait(bench.one.raw(), event) }.unwrap();
            unsafe { bench.driver().destroy_event(event) };
        },
        right: |bench| {
            let event = bench.event();
            let event = unsafe { bench.driver().record(bench.two.raw(), event) }.unwrap();
            let _ = unsafe { bench.driver().wait(bench.one.raw(), event) }.unwrap();
            unsafe { bench.driver().destroy_event(event) };
        },
    },
    Twins {
        name: "an event recorded twice",
        mistake: Mistake::EventRecordedTwice,
        build: discrete,
        wrong: |bench| {
            let event = bench.event();
            let event = unsafe { bench.driver().record(bench.one.raw(), event) }.unwrap();
            let event = unsafe { bench.driver().record(bench.one.raw(), event) }.unwrap();
            unsafe { bench.driver().destroy_event(event) };
        },
        right: |bench| {
            let (first, second) = (bench.one.record().unwrap(), bench.one.record().unwrap());
            bench.two.wait(&first).unwrap();
            bench.two.wait(&second).unwrap();
        },
    },
    Twins {
        name: "a wait for an event that was destroyed",
        mistake: Mistake::EventDestroyed,
        build: discrete,
        wrong: |bench| {
            let event = bench.one.record().unwrap().raw();
            let result = unsafe { bench.driver().wait(bench.two.raw(), event) };
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        },
        right: |bench| {
            let event = bench.one.record().unwrap();
            let _ = unsafe { bench.driver().wait(bench.two.raw(), event.raw()) }.unwrap();
        },
    },
    Twins {
        name: "an event destroyed twice",
        mistake: Mistake::EventDestroyed,
        build: discrete,
        wrong: |bench| {
            let event = bench.event();
            unsafe { bench.driver().destroy_event(event) };
            unsafe { bench.driver().destroy_event(event) };
        },
        right: |bench| unsafe { bench.driver().destroy_event(bench.event()) },
    },
    Twins {
        name: "a wild pointer as an event",
        mistake: Mistake::UnknownEvent,
        build: discrete,
        wrong: |bench| {
            let event = Raw::from_bits(0x1234);
            assert!(unsafe { bench.driver().wait(bench.one.raw(), event) }.is_err());
        },
        right: |bench| unsafe { bench.driver().destroy_event(Raw::NULL) },
    },
    Twins {
        name: "a queue used after it was closed",
        mistake: Mistake::QueueClosed,
        build: discrete,
        wrong: |bench| {
            let queue = bench.driver().open_queue().unwrap();
            unsafe { bench.driver().close_queue(queue) };
            assert!(unsafe { bench.driver().synchronize(queue) }.is_err());
        },
        right: |bench| {
            let queue = bench.driver().open_queue().unwrap();
            unsafe { bench.driver().synchronize(queue) }.unwrap();
            unsafe { bench.driver().close_queue(queue) };
        },
    },
    Twins {
        name: "a wild number as a queue",
        mistake: Mistake::UnknownQueue,
        build: discrete,
        wrong: |bench| {
            let result = unsafe { bench.driver().synchronize(Raw::from_bits(3)) };
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        },
        right: |bench| bench.one.synchronize().unwrap(),
    },
    Twins {
        name: "a mapping ended twice",
        mistake: Mistake::NotMapped,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let address = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
                unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
                unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let first = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
                let second = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
                unsafe { bench.driver().unmap(at(memory, 0), 64, first) };
                assert!(unsafe { *second.as_ptr() } > 0, "still readable");
                unsafe { bench.driver().unmap(at(memory, 0), 64, second) };
            });
        },
    },
    Twins {
        name: "a kernel that panics",
        mistake: Mistake::KernelPanicked,
        build: discrete,
        wrong: |bench| {
            // The quiet way to panic: no message on the way.
            let run = |_: &mut _| std::panic::resume_unwind(Box::new("planted"));
            bench.sim.kernel("broken").launch(&bench.one, run).unwrap();
            bench.idle();
        },
        right: |bench| {
            bench.sim.kernel("whole").launch(&bench.one, |_| {}).unwrap();
            bench.idle();
        },
    },
    Twins {
        name: "memory that is never freed",
        mistake: Mistake::LeakedAllocation,
        build: discrete,
        wrong: |bench| {
            bench.allocate(64);
        },
        right: |bench| bench.free(bench.allocate(64), 64),
    },
    Twins {
        name: "an event that is never destroyed",
        mistake: Mistake::LeakedEvent,
        build: discrete,
        wrong: |bench| {
            bench.event();
        },
        right: |bench| drop(bench.one.record().unwrap()),
    },
    Twins {
        name: "a queue that is never closed",
        mistake: Mistake::LeakedQueue,
        build: discrete,
        wrong: |bench| {
            bench.driver().open_queue().unwrap();
        },
        right: |bench| {
            let queue = bench.driver().open_queue().unwrap();
            unsafe { bench.driver().close_queue(queue) };
        },
    },
];

#[test]
fn every_mistake_of_the_catalogue_is_planted_here() {
    let planted: Vec<Mistake> = all().map(|twins| twins.mistake).collect();
    for mistake in catalogue::ALL {
        assert!(planted.contains(mistake), "{mistake:?}");
    }
    assert!(planted.iter().all(|mistake| catalogue::ALL.contains(mistake)));
}

#[test]
fn every_mistake_is_reported_on_every_seed_and_nothing_else_is() {
    for twins in all() {
        let Twins { name, mistake, wrong, .. } = twins;
        for seed in 0..SEEDS {
            let sim = twins.sim(seed);
            wrong(&Bench::new(&sim));
            let kinds: Vec<Mistake> = sim.finish().iter().map(|report| report.kind).collect();
            drop(forgotten());
            // Where work runs at once, the memory of a place that is withdrawn is free already.
            let is_free_already = *mistake == Mistake::UseAfterView && !seed.is_multiple_of(2);
            if !(is_free_already && kinds == [Mistake::UseAfterFree]) {
                assert_eq!(kinds, [*mistake], "{name}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_correct_twin_of_each_is_silent_on_every_seed() {
    for twins in all() {
        let Twins { name, right, .. } = twins;
        for seed in 0..SEEDS {
            let sim = twins.sim(seed);
            right(&Bench::new(&sim));
            let reports = sim.finish();
            assert!(reports.is_empty(), "{name}, seed {seed}: {reports:#?}");
        }
    }
}

#[test]
fn a_simulator_that_saw_a_mistake_panics_when_it_is_dropped() {
    let result = std::panic::catch_unwind(|| {
        let sim = Sim::builder().build();
        let bench = Bench::new(&sim);
        bench.free(Raw::from_bits(8), 64);
    });
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("no memory of this simulator"), "{message}");
}
