//! Memory that the host maps to fill it.

use arrow_device::driver::{Filled, Raw};
use arrow_device::{Array, DataType, Memory, Queue};
use arrow_device_sim::{Builder, Kind, Mistake, Sim};

use crate::mistakes::Twins;
use crate::support::{Bench, at, seeds};

fn readable() -> Builder {
    Sim::builder().kind(Kind::HostReadable)
}

/// Fills 64 bytes by the host, for a queue.
fn fill(bench: &Bench<'_>, queue: &Queue, memory: Raw<Memory>) {
    let spot = at(memory, 0);
    let address = unsafe { bench.driver().map_to_fill(queue.raw(), spot, 64) }.unwrap().unwrap();
    unsafe { address.as_ptr().write_bytes(9, 64) };
    let filled = unsafe { bench.driver().unmap_filled(queue.raw(), spot, 64, address) }.unwrap();
    assert_eq!(filled, Filled::InOrder);
}

fn with_memory(bench: &Bench<'_>, act: impl FnOnce(Raw<Memory>)) {
    let memory = bench.allocate(64);
    act(memory);
    bench.idle();
    bench.free(memory, 64);
}

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "memory that the host fills while a queue reads it",
        mistake: Mistake::UnorderedWrite,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                bench.consume(&bench.one, memory, 64);
                fill(bench, &bench.one, memory);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench.consume(&bench.one, memory, 64);
                bench.one.synchronize().unwrap();
                fill(bench, &bench.one, memory);
            });
        },
    },
    Twins {
        name: "memory that was allocated in the order of another queue, filled by the host",
        mistake: Mistake::UnorderedWrite,
        build: readable,
        wrong: |bench| {
            let queue = Some(bench.two.raw());
            let memory = unsafe { bench.driver().allocate(64, queue) }.unwrap();
            // The order of the queues is no order of the host.
            bench.order(&bench.two, &bench.one);
            fill(bench, &bench.one, memory);
            bench.idle();
            bench.free(memory, 64);
        },
        right: |bench| {
            let queue = Some(bench.one.raw());
            let memory = unsafe { bench.driver().allocate(64, queue) }.unwrap();
            fill(bench, &bench.one, memory);
            bench.idle();
            bench.free(memory, 64);
        },
    },
    Twins {
        name: "what the host filled, read by a queue that does not wait for it",
        mistake: Mistake::UnorderedRead,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                fill(bench, &bench.one, memory);
                bench.consume(&bench.two, memory, 64);
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                fill(bench, &bench.one, memory);
                bench.order(&bench.one, &bench.two);
                bench.consume(&bench.two, memory, 64);
                let bytes = bench.sim.read(&bench.two, at(memory, 0), 64).unwrap();
                assert_eq!(bytes, [9; 64]);
            });
        },
    },
    Twins {
        name: "work on memory that the host fills at the moment",
        mistake: Mistake::WriteWhileMapped,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let (queue, spot) = (bench.one.raw(), at(memory, 0));
                let address = unsafe { bench.driver().map_to_fill(queue, spot, 64) }.unwrap();
                bench.fill(&bench.one, memory, 64);
                let address = address.unwrap();
                let _ = unsafe { bench.driver().unmap_filled(queue, spot, 64, address) }.unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                fill(bench, &bench.one, memory);
                bench.fill(&bench.one, memory, 64);
            });
        },
    },
    Twins {
        name: "a filling that is ended twice",
        mistake: Mistake::NotMapped,
        build: readable,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let (queue, spot) = (bench.one.raw(), at(memory, 0));
                let address = unsafe { bench.driver().map_to_fill(queue, spot, 64) }.unwrap();
                let end =
                    |address| unsafe { bench.driver().unmap_filled(queue, spot, 64, address) };
                let _ = end(address.unwrap()).unwrap();
                end(address.unwrap()).unwrap_err();
            });
        },
        right: |bench| with_memory(bench, |memory| fill(bench, &bench.two, memory)),
    },
];

#[test]
fn copies_to_memory_that_the_host_can_write_are_filled_and_in_order() {
    let numbers = Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap();
    readable().sweep(seeds(200), |sim| {
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let copy = numbers.copy_to(&one).unwrap();
        let view = copy.on(&two).unwrap();
        let place = view.buffer(1).location().spot();
        let bytes = sim.read(&two, place, 800).unwrap();
        assert_eq!(bytes, (0..100_i64).flat_map(i64::to_ne_bytes).collect::<Vec<u8>>());
        drop((view, copy));
    });
}

#[test]
fn only_memory_that_the_host_can_read_can_be_filled() {
    let readable = [Kind::HostReadable, Kind::OneQueueReadable];
    for kind in Kind::ALL.into_iter().filter(|kind| !readable.contains(kind)) {
        let sim = Sim::builder().kind(kind).build();
        let bench = Bench::new(&sim);
        with_memory(&bench, |memory| {
            let mapped = unsafe { bench.driver().map_to_fill(bench.one.raw(), at(memory, 0), 64) };
            assert!(mapped.unwrap().is_none(), "{kind:?}");
        });
    }
}
