//! What is left behind is told once, by what nobody let go of.

use std::sync::Arc;

use arrow_device::{Array, Batch, DataType};
use arrow_device_sim::{Kind, Mistake, Sim};

use crate::mistakes::Twins;
use crate::support::producer::pending_numbers;
use crate::support::{Bench, at, forget, forgotten};

/// Numbers that a kernel on the first queue still has to write.
fn written(bench: &Bench<'_>) -> Array {
    let mut memory = bench.device.allocate(64).unwrap();
    let spot = memory.spot(&bench.one).unwrap();
    bench.sim.fill(&bench.one, spot, 64, 7).unwrap();
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(&bench.one).unwrap()
}

/// The same numbers of a producer that does not use the library.
fn imported(bench: &Bench<'_>) -> Array {
    let mut c_array = pending_numbers(bench.sim, &bench.one, &[7; 8], &Arc::default());
    let schema = arrow_device::Schema::try_from(DataType::Int64).unwrap();
    unsafe { Array::import(&raw mut c_array, &schema) }.unwrap()
}

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "an array that is forgotten",
        mistake: Mistake::LeakedArray,
        build: Sim::builder,
        wrong: |bench| forget(written(bench)),
        right: |bench| drop(written(bench)),
    },
    Twins {
        name: "an import that is forgotten",
        mistake: Mistake::LeakedArray,
        build: Sim::builder,
        wrong: |bench| forget(imported(bench)),
        right: |bench| drop(imported(bench).on(&bench.one).unwrap()),
    },
    Twins {
        name: "a record batch that is forgotten",
        mistake: Mistake::LeakedArray,
        build: Sim::builder,
        wrong: |bench| {
            let columns = [("a", written(bench)), ("b", imported(bench))];
            forget(Batch::from_columns(columns).unwrap());
        },
        right: |bench| {
            let columns = [("a", written(bench)), ("b", imported(bench))];
            let batch = Batch::from_columns(columns).unwrap();
            drop(batch.as_array().on(&bench.one).unwrap());
        },
    },
    Twins {
        name: "a view that is forgotten",
        mistake: Mistake::LeakedView,
        build: Sim::builder,
        wrong: |bench| {
            let columns = [("a", written(bench)), ("b", imported(bench))];
            let batch = Batch::from_columns(columns).unwrap();
            forget(batch.as_array().on(&bench.two).unwrap());
        },
        right: |bench| {
            let columns = [("a", written(bench)), ("b", imported(bench))];
            let batch = Batch::from_columns(columns).unwrap();
            drop(batch.as_array().on(&bench.two).unwrap());
        },
    },
    Twins {
        name: "a view of a buffer that is forgotten",
        mistake: Mistake::LeakedView,
        build: Sim::builder,
        wrong: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            memory.write(&bench.one, &[3; 64]).unwrap();
            forget(memory.into_buffer().on(&bench.two).unwrap());
        },
        right: |bench| {
            let mut memory = bench.device.allocate(64).unwrap();
            memory.write(&bench.one, &[3; 64]).unwrap();
            drop(memory.into_buffer().on(&bench.two).unwrap());
        },
    },
    Twins {
        name: "a memory that is forgotten",
        mistake: Mistake::LeakedAllocation,
        build: Sim::builder,
        wrong: |bench| {
            let mut memory = bench.one.allocate(64).unwrap();
            let _ = memory.spot(&bench.two).unwrap();
            forget(memory);
        },
        right: |bench| {
            let mut memory = bench.one.allocate(64).unwrap();
            let _ = memory.spot(&bench.two).unwrap();
        },
    },
    Twins {
        name: "a mapping that is never ended, and its memory with it",
        mistake: Mistake::LeakedMapping,
        build: || Sim::builder().kind(Kind::HostReadable),
        wrong: |bench| {
            let memory = bench.allocate(64);
            let _ = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
        },
        right: |bench| {
            let memory = bench.allocate(64);
            let address = unsafe { bench.driver().map(at(memory, 0), 64) }.unwrap();
            unsafe { bench.driver().unmap(at(memory, 0), 64, address) };
            bench.free(memory, 64);
        },
    },
];

/// The only report of a simulator in which something is left behind.
fn only(wrong: impl FnOnce(&Bench<'_>)) -> String {
    let sim = Sim::builder().build();
    wrong(&Bench::new(&sim));
    let reports = sim.finish();
    drop(forgotten());
    let [report] = &reports[..] else { panic!("{reports:#?}") };
    report.to_string()
}

#[test]
fn a_leak_names_the_import_and_what_stays_with_it() {
    let text = only(|bench| forget(imported(bench)));
    assert!(text.starts_with("array leaked: allocation 1, bytes 0..64 of 64"), "{text}");
    assert!(text.contains("first      imported, by the host"), "{text}");
    assert!(text.contains("With it stay allocation 1, event 1."), "{text}");
}

#[test]
fn a_leak_names_the_view_and_what_stays_with_it() {
    let text = only(|bench| forget(written(bench).on(&bench.two).unwrap()));
    assert!(text.starts_with("view leaked: allocation 1, bytes 0..64 of 64"), "{text}");
    assert!(text.contains("first      told for queue 2, by the host"), "{text}");
    let stay = "With it stay an array, allocation 1, queue 1, queue 2, event 1, event 2.";
    assert!(text.contains(stay), "{text}");
}

#[test]
fn a_leak_of_what_was_exported_says_so() {
    let text = only(|bench| {
        let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
        written(bench).export(&mut c_array).unwrap();
        // Never released.
    });
    assert!(text.starts_with("array leaked"), "{text}");
    assert!(text.contains("It was exported"), "{text}");
}

#[test]
fn leaks_that_have_nothing_in_common_are_told_one_by_one() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    forget(imported(&bench));
    forget(bench.device.allocate(8).unwrap());
    forget(bench.device.open_queue().unwrap());
    bench.event();
    drop(bench);
    let kinds: Vec<Mistake> = sim.finish().iter().map(|report| report.kind).collect();
    drop(forgotten());
    let others = [Mistake::LeakedAllocation, Mistake::LeakedQueue, Mistake::LeakedEvent];
    assert_eq!(kinds[0], Mistake::LeakedArray);
    assert_eq!(kinds[1..], others);
}
