//! A report names both places, and reads as an explanation.

use arrow_device::{Array, DataType, Queue, View};
use arrow_device_sim::{Actor, Mistake, Report, Schedule, Sim};

use crate::support;
use crate::support::Bench;

fn only(sim: &Sim) -> Report {
    let reports = sim.take_reports();
    let [report] = &reports[..] else { panic!("{reports:#?}") };
    report.clone()
}

#[test]
fn a_race_is_told_with_both_places_and_what_to_do() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(64);
    sim.fill(&bench.one, support::at(memory, 0), 48, 7).unwrap();
    let filled = line!() - 1;
    let kernel = sim.kernel("sum").reads(support::at(memory, 16), 48);
    kernel.launch(&bench.two, |_| {}).unwrap();
    let launched = line!() - 1;
    let report = only(&sim);
    assert_eq!(report.kind, Mistake::UnorderedRead);
    let memory_of = report.memory.as_ref().unwrap();
    assert_eq!((memory_of.number, memory_of.len, &memory_of.bytes), (1, 64, &(16..48)));
    let (first, second) = (report.first.as_ref().unwrap(), report.second.as_ref().unwrap());
    assert_eq!(first.by, Actor::Queue { queue: 1, work: 1 });
    assert_eq!(second.by, Actor::Queue { queue: 2, work: 1 });
    assert_eq!(first.site.to_string(), format!("{}:{filled}", file!()));
    assert_eq!(second.site.to_string(), format!("{}:{launched}", file!()));
    let text = report.to_string();
    assert!(text.starts_with("read without order: allocation 1, bytes 16..48 of 64"), "{text}");
    assert!(text.contains("written by fill, by queue 1, work 1"), "{text}");
    assert!(text.contains("read by kernel `sum`, by queue 2, work 1"), "{text}");
    assert!(text.contains("`Array::on`"), "{text}");
    assert!(!text.contains("0x"), "addresses change from run to run: {text}");
    bench.idle();
    bench.free(memory, 64);
}

/// The library stands between this function and the driver.
#[inline(never)]
fn write_through_the_library(queue: &Queue) -> Array {
    let mut memory = queue.device().allocate(8).unwrap();
    memory.write(queue, &[1; 8]).unwrap();
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(1).buffers(buffers).finish_on(queue).unwrap()
}

/// Miri has no addresses to look up.
#[cfg(not(miri))]
#[test]
fn a_call_through_the_library_is_blamed_on_the_users_line() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let array = write_through_the_library(&queue);
    let view = array.on(&queue).unwrap();
    let spot = view.buffer(1).location().spot();
    sim.fill(&queue, spot, 8, 0).unwrap();
    let report = only(&sim);
    assert_eq!(report.kind, Mistake::WriteToShared);
    for site in [&report.first.unwrap().site, &report.memory.unwrap().site] {
        let site = site.to_string();
        assert!(site.contains("reports.rs") && site.contains("write_through_the"), "{site}");
    }
}

#[inline(never)]
fn let_go(view: View, array: Array) {
    drop((view, array));
}

#[cfg(not(miri))]
#[test]
fn a_free_through_the_library_is_blamed_on_the_users_line() {
    let sim = Sim::builder().schedule(Schedule::Eager).build();
    let queue = sim.device().open_queue().unwrap();
    let array = write_through_the_library(&queue);
    let view = array.on(&queue).unwrap();
    let spot = view.buffer(1).location().spot();
    let_go(view, array);
    sim.kernel("read").reads(spot, 8).launch(&queue, |_| {}).unwrap();
    queue.synchronize().unwrap();
    let report = only(&sim);
    assert_eq!(report.kind, Mistake::UseAfterFree);
    assert!(report.to_string().contains("let_go"), "{report}");
}

#[test]
fn taking_the_reports_reads_them_and_looking_does_not() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    bench.free(arrow_device::driver::Raw::from_bits(8), 1);
    assert_eq!((sim.reports().len(), sim.reports().len()), (1, 1));
    assert_eq!((sim.take_reports().len(), sim.take_reports().len()), (1, 0));
}

#[test]
fn a_thread_that_panics_already_does_not_panic_twice() {
    let result = std::panic::catch_unwind(|| {
        let sim = Sim::builder().build();
        let bench = Bench::new(&sim);
        bench.free(arrow_device::driver::Raw::from_bits(8), 1);
        std::panic::resume_unwind(Box::new("the first"));
    });
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "the first");
}
