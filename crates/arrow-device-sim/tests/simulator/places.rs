//! Places that a view or a memory told, used when that is gone; and memory that is shared in parts.

use std::sync::Arc;

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Array, Buffer, DataType, Memory, Queue};
use arrow_device_sim::{Builder, Kind, Mistake, Sim};

use crate::mistakes::Twins;
use crate::support::Bench;

/// Numbers that were written before anybody was told their place.
fn numbers(bench: &Bench<'_>) -> Array {
    let mut memory = bench.device.allocate(64).unwrap();
    memory.write(&bench.one, &[3; 64]).unwrap();
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_ready().unwrap()
}

/// The same, exported and imported.
fn imported(bench: &Bench<'_>) -> Array {
    let array = numbers(bench);
    let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap()
}

fn read(bench: &Bench<'_>, queue: &Queue, spot: Spot) {
    bench.sim.kernel("consume").reads(spot, 64).launch(queue, |_| {}).unwrap();
}

fn spot_of(array: &Array, queue: &Queue) -> (arrow_device::View, Spot) {
    let view = array.on(queue).unwrap();
    let spot = view.buffer(1).location().spot();
    (view, spot)
}

/// An allocator that cuts memory into pieces of 64 bytes: the pieces are parts of one allocation.
struct Arena {
    base: Spot,
    whole: Arc<Memory>,
}

impl Arena {
    fn new(bench: &Bench<'_>) -> Self {
        let mut whole = bench.device.allocate(4096).unwrap();
        let base = whole.spot(&bench.one).unwrap();
        Self { base, whole: Arc::new(whole) }
    }

    fn at(&self, piece: usize) -> Spot {
        let address = self.base.base.as_ptr().wrapping_byte_add(64 * piece);
        Spot { base: Raw::from_ptr(address), offset: 0 }
    }

    fn piece(&self, piece: usize) -> Memory {
        let device = self.whole.device().clone();
        unsafe { Memory::adopt(&device, self.at(piece).base, 64, self.whole.clone()) }
    }

    /// A piece that holds this byte, and is shared.
    fn shared(&self, bench: &Bench<'_>, piece: usize, byte: u8) -> Buffer {
        let mut memory = self.piece(piece);
        memory.write(&bench.one, &[byte; 64]).unwrap();
        memory.into_buffer()
    }
}

fn readable() -> Builder {
    Sim::builder().kind(Kind::HostReadable)
}

/// An array whose memory was told the first queue, for a kernel that fills it.
fn written_by_a_kernel(bench: &Bench<'_>) -> Array {
    let mut memory = bench.device.allocate(64).unwrap();
    let spot = memory.spot(&bench.one).unwrap();
    bench.sim.fill(&bench.one, spot, 64, 1).unwrap();
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(&bench.one).unwrap()
}

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "the place of an array used when its view and the array are gone",
        mistake: Mistake::UseAfterView,
        build: Sim::builder,
        wrong: |bench| {
            let array = numbers(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            read(bench, &bench.one, spot);
            drop((view, array));
            read(bench, &bench.one, spot);
            bench.idle();
        },
        right: |bench| {
            let array = numbers(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            drop(array);
            read(bench, &bench.one, spot);
            read(bench, &bench.one, spot);
            drop(view);
            bench.idle();
        },
    },
    Twins {
        name: "the place of an import used when its view and the import are gone",
        mistake: Mistake::UseAfterView,
        build: Sim::builder,
        wrong: |bench| {
            let array = imported(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            read(bench, &bench.one, spot);
            drop((view, array));
            read(bench, &bench.one, spot);
            bench.idle();
        },
        right: |bench| {
            let array = imported(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            drop(array);
            read(bench, &bench.one, spot);
            drop(view);
            bench.idle();
        },
    },
    Twins {
        name: "the place of an array used when its view is gone and the array is not",
        mistake: Mistake::UseAfterView,
        build: readable,
        wrong: |bench| {
            let array = numbers(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            drop(view);
            read(bench, &bench.one, spot);
            bench.idle();
        },
        right: |bench| {
            let array = numbers(bench);
            let (view, spot) = spot_of(&array, &bench.one);
            drop(view);
            // Told again, and for another queue.
            let (_view, again) = spot_of(&array, &bench.one);
            let (_other, _) = spot_of(&array, &bench.two);
            assert_eq!(spot, again);
            read(bench, &bench.one, spot);
            read(bench, &bench.two, spot);
            bench.idle();
        },
    },
    Twins {
        name: "the place of an array used when its view is gone and its memory was told another queue",
        mistake: Mistake::UseAfterView,
        build: readable,
        wrong: |bench| {
            let array = written_by_a_kernel(bench);
            let (view, spot) = spot_of(&array, &bench.two);
            drop(view);
            read(bench, &bench.two, spot);
            bench.idle();
        },
        right: |bench| {
            let array = written_by_a_kernel(bench);
            let (view, spot) = spot_of(&array, &bench.two);
            read(bench, &bench.two, spot);
            drop(view);
            bench.idle();
        },
    },
    Twins {
        name: "the place of a buffer used when its view is gone",
        mistake: Mistake::UseAfterView,
        build: Sim::builder,
        wrong: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            memory.write(&bench.one, &[3; 64]).unwrap();
            let buffer = memory.into_buffer();
            let spot = buffer.on(&bench.one).unwrap().location().spot();
            read(bench, &bench.one, spot);
            bench.idle();
        },
        right: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            memory.write(&bench.one, &[3; 64]).unwrap();
            let buffer = memory.into_buffer();
            let view = buffer.on(&bench.one).unwrap();
            drop(buffer);
            read(bench, &bench.one, view.location().spot());
            drop(view);
            bench.idle();
        },
    },
    Twins {
        name: "the place of a memory used when that is gone",
        mistake: Mistake::UseAfterView,
        build: Sim::builder,
        wrong: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            let spot = memory.spot(&bench.one).unwrap();
            bench.sim.fill(&bench.one, spot, 64, 1).unwrap();
            drop(memory);
            bench.sim.fill(&bench.one, spot, 64, 2).unwrap();
            bench.idle();
        },
        right: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            let spot = memory.spot(&bench.one).unwrap();
            bench.sim.fill(&bench.one, spot, 64, 1).unwrap();
            // The buffer has the memory, and so the place stays good for work that reads.
            unsafe { memory.assume_written(64) };
            let buffer = memory.into_buffer();
            read(bench, &bench.one, spot);
            drop(buffer);
            bench.idle();
        },
    },
    Twins {
        name: "a write to a shared part of an allocation",
        mistake: Mistake::WriteToShared,
        build: Sim::builder,
        wrong: |bench| {
            let arena = Arena::new(bench);
            let _shared = arena.shared(bench, 3, 1);
            bench.sim.fill(&bench.one, arena.at(3), 64, 2).unwrap();
            bench.idle();
        },
        right: |bench| {
            let arena = Arena::new(bench);
            let (first, third) = (arena.shared(bench, 0, 1), arena.shared(bench, 3, 1));
            // Beside what is shared, and where it was shared before.
            let _fourth = arena.shared(bench, 4, 2);
            drop((first, third));
            let again = [arena.shared(bench, 0, 3), arena.shared(bench, 3, 4)];
            for buffer in again {
                let view = buffer.on(&bench.two).unwrap();
                read(bench, &bench.two, view.location().spot());
            }
            bench.idle();
        },
    },
];

#[test]
fn a_place_near_the_greatest_address_is_out_of_bounds() {
    for kind in Kind::ALL {
        for has_parts in [false, true] {
            let sim = Sim::builder().kind(kind).parts(has_parts).backtraces(false).build();
            let queue = sim.device().open_queue().unwrap();
            let mut memory = queue.allocate(8).unwrap();
            let place = Spot { offset: u64::MAX - 3, ..memory.spot(&queue).unwrap() };
            let _ = sim.kernel("beyond").reads(place, 2).launch(&queue, |_| {});
            let reports = sim.take_reports();
            let kinds: Vec<_> = reports.iter().map(|report| report.kind).collect();
            assert_eq!(kinds, [Mistake::OutOfBounds], "{kind:?}");
            drop((memory, queue));
            sim.finish();
        }
    }
}
