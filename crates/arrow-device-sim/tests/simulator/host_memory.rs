//! Host memory that copies read and write: the order of copies among each other is judged as it is
//! for memory of the device.

use arrow_device::Queue;
use arrow_device::driver::{Raw, Route};
use arrow_device_sim::{Mistake, Schedule, Sim, sweep};

use crate::mistakes::Twins;
use crate::support::{Bench, at, host_mut, region, seeds};

/// Copies eight bytes of host memory to the first bytes of an allocation.
fn there(bench: &Bench<'_>, queue: &Queue, memory: Raw<arrow_device::Memory>, bytes: &mut [u8; 8]) {
    let region = region(host_mut(bytes), at(memory, 0), 8);
    bench.copy(queue, Route::FromHost, &[region]).unwrap();
}

/// Copies the second eight bytes of an allocation to host memory.
fn back(bench: &Bench<'_>, queue: &Queue, memory: Raw<arrow_device::Memory>, bytes: &mut [u8; 8]) {
    let region = region(at(memory, 8), host_mut(bytes), 8);
    bench.copy(queue, Route::ToHost, &[region]).unwrap();
}

/// Memory of sixteen bytes that hold 7, and eight bytes of the host that hold 1.
fn with_both(bench: &Bench<'_>, act: impl FnOnce(Raw<arrow_device::Memory>, &mut [u8; 8])) {
    let memory = bench.allocate(16);
    bench.fill(&bench.one, memory, 16);
    bench.idle();
    let bytes: *mut [u8; 8] = Box::into_raw(Box::new([1; 8]));
    act(memory, unsafe { &mut *bytes });
    bench.idle();
    drop(unsafe { Box::from_raw(bytes) });
    bench.free(memory, 16);
}

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "host memory that one queue writes and another reads",
        mistake: Mistake::UnorderedRead,
        build: Sim::builder,
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                there(bench, &bench.two, memory, bytes);
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                bench.one.synchronize().unwrap();
                there(bench, &bench.two, memory, bytes);
                assert_eq!(bench.sim.read(&bench.two, at(memory, 0), 8).unwrap(), [7; 8]);
            });
        },
    },
    // The queue is behind the write. The copy may read its source in the call all the same.
    Twins {
        name: "host memory that the same queue has still to write",
        mistake: Mistake::UnorderedRead,
        build: Sim::builder,
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                there(bench, &bench.one, memory, bytes);
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                bench.one.record().unwrap().synchronize().unwrap();
                there(bench, &bench.one, memory, bytes);
                assert_eq!(bench.sim.read(&bench.one, at(memory, 0), 8).unwrap(), [7; 8]);
            });
        },
    },
    Twins {
        name: "host memory that a queue writes for which another waits",
        mistake: Mistake::UnorderedRead,
        build: || Sim::builder().host_sources_at_submission(true),
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                bench.order(&bench.one, &bench.two);
                there(bench, &bench.two, memory, bytes);
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                bench.order(&bench.one, &bench.two);
                bench.two.synchronize().unwrap();
                there(bench, &bench.two, memory, bytes);
                assert_eq!(bench.sim.read(&bench.two, at(memory, 0), 8).unwrap(), [7; 8]);
            });
        },
    },
    Twins {
        name: "host memory that one queue reads and another writes",
        mistake: Mistake::UnorderedWrite,
        build: Sim::builder,
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                there(bench, &bench.one, memory, bytes);
                back(bench, &bench.two, memory, bytes);
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                there(bench, &bench.one, memory, bytes);
                bench.order(&bench.one, &bench.two);
                back(bench, &bench.two, memory, bytes);
                assert_eq!(bench.sim.read(&bench.two, at(memory, 0), 8).unwrap(), [1; 8]);
            });
        },
    },
    Twins {
        name: "host memory that two queues write",
        mistake: Mistake::UnorderedWrite,
        build: Sim::builder,
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                back(bench, &bench.two, memory, bytes);
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                back(bench, &bench.one, memory, bytes);
                bench.one.synchronize().unwrap();
                back(bench, &bench.two, memory, bytes);
            });
        },
    },
    Twins {
        name: "two regions of one copy to the same host memory",
        mistake: Mistake::OverlappingRegions,
        build: Sim::builder,
        wrong: |bench| {
            with_both(bench, |memory, bytes| {
                let to = host_mut(bytes);
                let regions = [region(at(memory, 0), to, 8), region(at(memory, 8), to, 8)];
                bench.copy(&bench.one, Route::ToHost, &regions).unwrap();
            });
        },
        right: |bench| {
            with_both(bench, |memory, bytes| {
                let regions = [region(at(memory, 0), host_mut(bytes), 8)];
                bench.copy(&bench.one, Route::ToHost, &regions).unwrap();
            });
        },
    },
];

#[test]
fn a_copy_from_host_memory_and_then_one_to_it_on_one_queue_are_in_order() {
    sweep(seeds(1024), |sim| {
        let bench = Bench::new(sim);
        with_both(&bench, |memory, bytes| {
            there(&bench, &bench.one, memory, bytes);
            back(&bench, &bench.one, memory, bytes);
            back(&bench, &bench.one, memory, bytes);
            bench.one.synchronize().unwrap();
            assert_eq!(bench.sim.read(&bench.one, at(memory, 0), 8).unwrap(), [1; 8]);
            assert_eq!(bytes, &[7; 8]);
        });
    });
}

#[test]
fn host_memory_that_nobody_uses_any_more_is_forgotten() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(16);
    bench.fill(&bench.one, memory, 16);
    for _ in 0..100 {
        let mut bytes = [1; 8];
        there(&bench, &bench.one, memory, &mut bytes);
        bench.one.synchronize().unwrap();
        // The same bytes, on another queue: the host has waited.
        back(&bench, &bench.two, memory, &mut bytes);
        bench.two.synchronize().unwrap();
        assert_eq!(bytes, [7; 8]);
    }
    bench.free(memory, 16);
}

/// Requirement: DRV-23
#[test]
fn a_device_may_read_the_host_sources_of_a_copy_when_it_is_submitted() {
    for at_submission in [false, true] {
        let builder = Sim::builder().host_sources_at_submission(at_submission);
        builder.schedule(Schedule::Late).sweep(seeds(64), |sim| {
            let bench = Bench::new(sim);
            with_both(&bench, |memory, bytes| {
                there(&bench, &bench.one, memory, bytes);
                // SAFETY: the bytes live until the end. The copy is not over.
                unsafe { (&raw mut *bytes).write_volatile([3; 8]) };
                let read = sim.read(&bench.one, at(memory, 0), 8).unwrap();
                assert_eq!(read, if at_submission { [1; 8] } else { [3; 8] });
            });
            let kinds: Vec<Mistake> = sim.take_reports().iter().map(|it| it.kind).collect();
            assert_eq!(kinds, vec![Mistake::HostSourceChanged; usize::from(!at_submission)]);
        });
    }
}
