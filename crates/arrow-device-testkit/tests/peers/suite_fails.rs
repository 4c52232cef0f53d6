//! Each check of the suite, seen to fail on an implementation that is wrong in one place.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::driver::EventNotices;
use arrow_device::{Array, ArrayBuilder, DataType, Device, Queue, Result, View};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::faulty::{Fault, Faulty};
use arrow_device_testkit::kinds::{self, Case};
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::suite::{Check, Exchange, Finding, Library, Report, Suite};
use arrow_device_testkit::{Verdict, require};

fn reports(sim: &Sim) -> Verdict {
    match sim.take_reports().first() {
        Some(report) => Err(report.to_string()),
        None => Ok(()),
    }
}

/// Arrays in which every mistake shows.
fn cases() -> Vec<Case> {
    let text = || kinds::Kind::Text("u", 4);
    [
        kinds::Kind::Struct(vec![kinds::Kind::Fixed("l", 8), text()]),
        kinds::Kind::List("+l", 4, Box::new(text())),
        kinds::Kind::Dictionary("c", 1, Box::new(text())),
    ]
    .map(|kind| Case::new(kind, Window::SLICED, Nulls::Counted))
    .into()
}

/// The table of everything that is wrong: what to call it, which check finds it, and what that
/// says.
struct Wrong {
    name: &'static str,
    check: Check,
    complaint: &'static str,
    run: fn(Check) -> Report,
}

fn all() -> Vec<Wrong> {
    let wrong = |name, check, complaint, run| Wrong { name, check, complaint, run };
    vec![
        wrong("a queue that does not wait", Check::Waits, "reads [", |check| {
            faulty(check, Fault::QueueWait, Sim::builder())
        }),
        wrong("a copy that waits", Check::Waits, "a copy comes back only when", |check| {
            faulty(check, Fault::CopyWaits, Sim::builder())
        }),
        wrong("a wait that blocks", Check::Waits, "comes back only when that has", |check| {
            faulty(check, Fault::QueueWaitBlocks, Sim::builder())
        }),
        wrong("a question that blocks", Check::Waits, "is answered only when", |check| {
            faulty(check, Fault::QuestionWaits, Sim::builder())
        }),
        wrong("wakes under a lock", Check::Waits, "is woken under a lock that", |check| {
            let sim = Sim::builder().event_notices(EventNotices::Anywhere).build();
            let device = Faulty::of(&sim.device()).late().fault(Fault::CallbackLocked).open();
            let report = suite(&device).only([check]).run();
            drop(device);
            drop(sim.finish());
            report
        }),
        wrong("memory that is not aligned", Check::Memory, "which is not aligned", |check| {
            faulty(check, Fault::Misaligned, Sim::builder())
        }),
        wrong("copies over neighbours", Check::Bytes, " are wrong", |check| {
            faulty(check, Fault::RoundedUp, Sim::builder())
        }),
        wrong("maps something else", Check::Mappings, "a mapping shows", |check| {
            faulty(check, Fault::MapOffset, Sim::builder().kind(Kind::HostReadable))
        }),
        wrong("imports another window", Check::Import, "length, null count and offset", |check| {
            exchanged(check, &Moved)
        }),
        wrong("releases what it imported", Check::Import, "released while its consumer", |check| {
            exchanged(check, &Copies)
        }),
        wrong("never releases", Check::Import, "1 releases of 2", |check| exchanged(check, &Keeps)),
        wrong("reads other bytes", Check::Import, "reads [", |check| {
            faulty(check, Fault::CopyIn, Sim::builder())
        }),
        wrong("exports as ready what is not", Check::Export, "read without order", |check| {
            let sim = Sim::builder().build();
            let hurries = Hurries(sim.device().open_queue().unwrap());
            let number = kinds::Kind::Fixed("l", 8);
            let cases = vec![Case::new(number, Window::SLICED, Nulls::Counted)];
            let watch = || reports(&sim);
            let suite = Suite::new(&sim.device()).over(cases).only([check]);
            suite.watched_by(&watch).through(&hurries).run()
        }),
        wrong("exports without the event", Check::Export, "no event, and", |check| {
            exchanged(check, &Tampers(|_, array| array.sync_event = std::ptr::null_mut()))
        }),
        wrong("exports another offset", Check::Export, "length, null count and offset", |check| {
            exchanged(check, &Tampers(|_, array| array.array.offset -= 1))
        }),
        wrong("exports another null count", Check::Export, "length, null count", |check| {
            exchanged(check, &Tampers(|_, array| array.array.null_count = -1))
        }),
        wrong("exports another schema", Check::Export, "the schema is", |check| {
            exchanged(check, &Tampers(|schema, _| schema.flags = 0))
        }),
        wrong("exports another address", Check::Export, "buffers moved", |check| {
            exchanged(check, &Tampers(|_, array| other_address(&array.array)))
        }),
        wrong("exports for another device", Check::Export, "it lies on", |check| {
            exchanged(check, &Tampers(|_, array| array.device_id += 1))
        }),
        wrong("leaves garbage in reserved", Check::Export, "`reserved`", |check| {
            exchanged(check, &Tampers(|_, array| array.reserved[2] = 1))
        }),
        wrong("frees nothing", Check::Export, "leaked", |check| {
            faulty(check, Fault::NeverFreed, Sim::builder())
        }),
        wrong("loses the event", Check::ReExport, "the event is another one now", |check| {
            exchanged(check, &Tampers(|_, array| array.sync_event = std::ptr::null_mut()))
        }),
        wrong("never releases", Check::ReExport, "1 releases of 2", |check| {
            exchanged(check, &Keeps)
        }),
        wrong("children that are not released", Check::MoveChildren, "1 releases of 2", |check| {
            exchanged(check, &Tampers(|_, array| forget_children(&array.array)))
        }),
        wrong("copies another window", Check::Copy, "came back", |check| exchanged(check, &Moved)),
        wrong("copies nothing there", Check::Copy, "reads [", |check| {
            // Offsets that were never written could say that there are gigabytes.
            let number = kinds::Kind::Fixed("l", 8);
            let cases = vec![Case::new(number, Window::SLICED, Nulls::Counted)];
            faulty_over(cases, check, Fault::CopyIn, Sim::builder())
        }),
        wrong("copies nothing back", Check::Copy, "", |check| {
            faulty(check, Fault::CopyOut, Sim::builder())
        }),
        wrong("copies to the host only", Check::Copy, "it is on", |check| {
            exchanged(check, &StaysOnTheHost)
        }),
        wrong("queues do not wait", Check::Order, "read without order", |check| {
            faulty(check, Fault::QueueWait, Sim::builder())
        }),
        wrong("says that all is done", Check::DeferredRelease, "still uses it", |check| {
            faulty(check, Fault::EventsComplete, Sim::builder())
        }),
        wrong("forgets a view", Check::DeferredRelease, "1 releases of 2", |check| {
            exchanged(check, &ForgetsViews)
        }),
        wrong("the host does not wait", Check::ReadInPlace, "reads [", |check| {
            faulty(check, Fault::HostWait, Sim::builder().kind(Kind::HostReadable))
        }),
        wrong("reaches everything", Check::AnotherDevice, "cannot reach", |check| {
            let sim = Sim::builder().devices(2).build();
            let other = Faulty::of(&sim.device_number(1)).fault(Fault::Reach).open();
            let watch = || reports(&sim);
            suite(&sim.device()).beside(&other).only([check]).watched_by(&watch).run()
        }),
        wrong("uses another queue", Check::AnotherDevice, "cannot be reached was shown", |check| {
            let sim = Sim::builder().devices(2).build();
            let elsewhere = ElsewhereToo(sim.device().open_queue().unwrap());
            let suite = suite(&sim.device()).beside(&sim.device_number(1));
            suite.only([check]).through(&elsewhere).run()
        }),
    ]
}

fn suite(device: &Device) -> Suite<'static> {
    // A software device is late with its work anyway.
    Suite::new(device).over(cases()).slow(&|_| ())
}

/// On a software device, with something else than the library.
fn exchanged(check: Check, exchange: &dyn Exchange) -> Report {
    let sim = Sim::builder().build();
    let report = suite(&sim.device()).only([check]).through(exchange).run();
    drop(sim.finish());
    report
}

/// On a software device with a fault; what the device saw is the complaint of the
/// case.
fn faulty(check: Check, fault: Fault, builder: Builder) -> Report {
    faulty_over(cases(), check, fault, builder)
}

fn faulty_over(cases: Vec<Case>, check: Check, fault: Fault, builder: Builder) -> Report {
    let sim = builder.build();
    let device = Faulty::of(&sim.device()).fault(fault).open();
    let watch = || {
        reports(&sim)?;
        // Nothing of a case is left after it.
        require(sim.allocated() == 0, || format!("{} bytes leaked", sim.allocated()))
    };
    let suite = Suite::new(&device).over(cases).only([check]).slow(&|_| ()).watched_by(&watch);
    let report = suite.holding(&|_| Box::new(|| ())).run();
    drop(device);
    drop(sim.finish());
    report
}

#[test]
fn each_check_fails_on_what_is_wrong() {
    let all = all();
    for Wrong { name, check, complaint, run } in &all {
        let report = run(*check);
        let is_found = |failure: &&_| {
            let arrow_device_testkit::suite::Failure { complaint: said, .. } = failure;
            said.contains(complaint)
        };
        let found = report.failures().iter().find(is_found);
        assert!(found.is_some(), "`{name}` was to be called `{complaint}`: {report}");
    }
    for check in Check::ALL {
        assert!(all.iter().any(|wrong| wrong.check == check), "{check} was never seen to fail");
    }
    println!("{} wrong implementations found out", all.len());
}

/// Without work that goes on until it is told to end, calls that wait show as well, but for copies.
#[test]
fn calls_that_wait_are_found_behind_more_and_more_work() {
    for (fault, found) in [
        (Fault::QueueWaitBlocks, Some("a queue's wait for an event does not hold up the host")),
        (Fault::QuestionWaits, Some("an event that has not passed says so at once")),
        (Fault::CopyWaits, None),
    ] {
        let sim = Sim::builder().backtraces(false).build();
        let device = Faulty::of(&sim.device()).fault(fault).open();
        let report = Suite::new(&device).over([]).only([Check::Waits]).slow(&|_| ()).run();
        let first = report.findings().first().map(|finding| finding.first.case.clone());
        assert_eq!(first.as_deref(), found, "{report}");
        drop(device);
        assert!(sim.finish().is_empty());
    }
}

#[test]
fn the_same_arrays_pass_where_nothing_is_wrong() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).peers(2).build();
        let watch = || {
            reports(&sim)?;
            require(sim.allocated() == 0, || format!("{} bytes leaked", sim.allocated()))
        };
        let (device, other) = (sim.device(), sim.device_number(1));
        suite(&device).watched_by(&watch).beside(&other).run().assert();
    }
}

#[test]
#[should_panic(expected = "3 cases failed, first: import: +s<l, u>, sliced, nulls: ")]
fn a_report_with_failures_fails_the_test_and_names_the_case() {
    exchanged(Check::Import, &Moved).assert();
}

#[test]
fn what_follows_from_a_fault_of_the_driver_is_one_finding_with_it() {
    let sim = Sim::builder().backtraces(false).build();
    let device = Faulty::of(&sim.device()).late().fault(Fault::Synchronize).open();
    let report = suite(&device).run();
    let findings = report.findings();
    assert!(report.failures().len() > 30, "{report}");
    assert_eq!(findings.len(), 1, "{report}");
    let Finding { first, cases, consequences, .. } = &findings[0];
    assert_eq!((first.check, first.case.as_str()), (Check::Waits, "the host waits for a queue"));
    assert_eq!(*cases, report.failures().iter().filter(|one| one.check == Check::Waits).count());
    let following: usize = consequences.iter().map(|(_, cases)| cases).sum();
    assert_eq!(cases + following, report.failures().len());
    let printed = report.to_string();
    assert!(printed.lines().count() < 20, "{printed}");
    drop(device);
    sim.finish();
}

#[test]
fn each_check_of_arrays_that_fails_on_a_right_driver_is_a_finding() {
    let sim = Sim::builder().build();
    let report = suite(&sim.device()).through(&Moved).run();
    drop(sim.finish());
    let found: Vec<Check> = report.findings().iter().map(|finding| finding.first.check).collect();
    let failed = |check: &Check| report.failures().iter().any(|failure| failure.check == *check);
    let expected: Vec<Check> = Check::ALL.into_iter().filter(failed).collect();
    assert_eq!(found, expected);
    assert!(found.len() > 3 && found.iter().all(|check| !check.is_of_driver()), "{report}");
    assert!(report.findings().iter().all(|finding| finding.consequences.is_empty()));
}

/// Takes over another part of the array.
struct Moved;

impl Exchange for Moved {
    fn import(&self, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Array> {
        Library.import(schema, array)?.slice(1, 2)
    }
}

/// Takes a copy, and lets the original go.
struct Copies;

impl Exchange for Copies {
    fn import(&self, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Array> {
        let array = Library.import(schema, array)?;
        let queue = Device::find(array.device()).unwrap().open_queue()?;
        array.copy_with(&Queue::host(), &Options::new().through(&queue).trim(false))
    }
}

/// Keeps everything for ever.
struct Keeps;

impl Exchange for Keeps {
    fn import(&self, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Array> {
        let array = Library.import(schema, array)?;
        std::mem::forget(array.clone());
        Ok(array)
    }
}

/// Names an event of a queue that does not do the work.
struct Hurries(Queue);

impl Exchange for Hurries {
    fn finish(&self, builder: ArrayBuilder, _: &Queue) -> Result<Array> {
        // Wrong: the work that writes the buffers does not come before this event.
        unsafe { builder.finish_after(self.0.record()?) }
    }
}

/// Changes what is handed on.
struct Tampers(fn(&mut ArrowSchema, &mut ArrowDeviceArray));

impl Exchange for Tampers {
    fn export(&self, array: &Array) -> Result<(ArrowSchema, ArrowDeviceArray)> {
        let (mut schema, mut array) = Library.export(array)?;
        (self.0)(&mut schema, &mut array);
        Ok((schema, array))
    }
}

/// The validity of the struct, the list or the keys.
fn other_address(array: &ArrowArray) {
    unsafe { *array.buffers = (*array.buffers).wrapping_byte_add(64) };
}

fn forget_children(array: &ArrowArray) {
    unsafe extern "C" fn forget(array: *mut ArrowArray) {
        unsafe { (*array).release = None };
    }
    for index in 0..array.n_children as usize {
        unsafe { (**array.children.add(index)).release = Some(forget) };
    }
}

/// Uses the memory of a device on the host only.
struct StaysOnTheHost;

impl Exchange for StaysOnTheHost {
    fn to_device(&self, array: &Array, _: &Queue) -> Result<Array> {
        Ok(array.clone())
    }
}

/// Keeps what it shows in use for ever.
struct ForgetsViews;

impl Exchange for ForgetsViews {
    fn view(&self, array: &Array, queue: &Queue) -> Result<View> {
        std::mem::forget(array.on(queue)?);
        array.on(queue)
    }
}

/// Where a queue is refused it takes one that is not.
struct ElsewhereToo(Queue);

impl Exchange for ElsewhereToo {
    fn view(&self, array: &Array, queue: &Queue) -> Result<View> {
        array.on(queue).or_else(|_| array.on(&self.0))
    }
}

/// An array can be anything that the library knows.
#[test]
fn an_exchange_is_the_library_unless_it_says_otherwise() {
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let (mut schema, mut c_array) = Library.export(&array).unwrap();
    let again = Library.import(&mut schema, &mut c_array).unwrap();
    assert!(again.equals(&array).unwrap());
}
