//! Arrow C++ exports to the library and imports from it: arrays and batches of every type, on the
//! host and on the software device. Both sides compare.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use arrow_device::copy::Options;
use arrow_device::deferred::wait_until_released;
use arrow_device::{Array, Queue, Schema, validate};
use arrow_device_testkit::consumer::{self, Seen, SeenSchema};
use arrow_device_testkit::kinds::{Case, cases};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Plan};
use arrow_device_testkit::{Verdict, producer, require};
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};

const TYPES: &str = "every type, every nesting of two";
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

fn words(error: arrow_device::Error) -> String {
    error.to_string()
}

/// An array that was imported after looking at its structs on every level.
fn import(mut structs: Structs) -> Result<Array, String> {
    let Structs { schema, array } = &mut structs;
    unsafe { validate::schema_structure(schema) }.map_err(words)?;
    unsafe { validate::structure(array) }.map_err(words)?;
    let schema = unsafe { Schema::import(schema) }.map_err(words)?;
    unsafe { validate::layout(array, &schema) }.map_err(words)?;
    let array = unsafe { Array::import(array, &schema) }.map_err(words)?;
    array.validate_layout().map_err(words)?;
    Ok(array)
}

/// What was found by running a check for many cases.
#[derive(Default)]
struct Found {
    good: usize,
    exceptions: BTreeMap<String, usize>,
    complaints: Vec<String>,
    /// Bytes that Arrow C++ still holds.
    leaked: i64,
}

impl Found {
    fn complain(&mut self, case: &dyn Display, complaint: &str) {
        match complaint.strip_prefix(EXCEPTION) {
            Some(reason) => *self.exceptions.entry(reason.to_owned()).or_default() += 1,
            None => self.complaints.push(format!("{case}: {complaint}")),
        }
    }

    /// That there is no complaint, and the line of the table. At most a few are shown.
    fn settle(&self, cpp: &ArrowCpp, direction: &str, place: &str, test: &str) {
        let shown: Vec<_> = self.complaints.iter().take(20).cloned().collect();
        assert!(shown.is_empty(), "{} complaints:\n{}", self.complaints.len(), shown.join("\n"));
        assert_eq!(self.leaked, 0, "Arrow C++ still holds memory");
        let exceptions = self.exceptions.iter();
        let exceptions: Vec<_> =
            exceptions.map(|(reason, count)| format!("{reason} ({count} cases)")).collect();
        let exceptions = if exceptions.is_empty() { "none".into() } else { exceptions.join("; ") };
        let count = self.good.to_string();
        let cells = [&cpp.name(), direction, place, TYPES, &count, &exceptions];
        table::check(Table::Exchanges, &cells, test);
    }
}

/// What Arrow C++ cannot do with its own arrays, by what it says then.
const ITS_OWN: [(&str, &str); 3] = [
    ("View buffer size", "empty slices of views are not taken back from itself"),
    (
        "nested run-end encoded",
        "run-end encoding in run-end encoding is not taken back from itself",
    ),
    (
        "extension<arrow_device.test> array not supported",
        "extensions of extensions are not exported",
    ),
];

/// How many cases share a software device, which takes longer to open than a case takes.
const AT_ONCE: usize = 64;

/// Runs a check for each of these cases, with a queue of a software device, and looks at what the
/// device has to say.
fn each<T>(
    cpp: &ArrowCpp,
    cases: &[T],
    name: impl Fn(&T) -> String,
    check: impl Fn(&T, &Queue) -> Verdict,
) -> Found {
    let (before, mut found) = (cpp.allocated(), Found::default());
    for (seed, some) in (0..).zip(cases.chunks(AT_ONCE)) {
        let closed = cpp.on_sim(seed, |sim, queue| {
            for case in some {
                let verdict = check(case, queue);
                queue.synchronize().map_err(words)?;
                wait_until_released(TIMEOUT).map_err(words)?;
                match verdict.and(sim.mistakes().map_or(Ok(()), Err)) {
                    Ok(()) => found.good += 1,
                    Err(complaint) => found.complain(&name(case), &complaint),
                }
            }
            Ok(())
        });
        if let Err(report) = closed {
            found.complain(&format!("{} and those after it", name(&some[0])), &report);
        }
    }
    found.leaked = cpp.allocated() - before;
    found
}

/// Runs a check for each case of Arrow C++. Where one fails that Arrow C++ itself does not get
/// through either, that is an exception.
fn each_case(cpp: &ArrowCpp, place: Place, check: impl Fn(usize, &Queue) -> Verdict) -> Found {
    let (arrays, batches) = cpp.counts();
    // There are eight shapes of each type; each is looked at on the way.
    let step = if place == Place::Pending { 3 } else { 1 };
    let numbers: Vec<usize> = (0..arrays + batches).step_by(step).collect();
    each(
        cpp,
        &numbers,
        |number| cpp.case_name(*number),
        |number, queue| {
            check(*number, queue).map_err(|complaint| {
                let alone = check_alone(cpp, *number, place).err().unwrap_or_default();
                let known = ITS_OWN.iter().find(|(said, _)| alone.contains(said));
                known.map_or(complaint, |(_, reason)| format!("{EXCEPTION}{reason}"))
            })
        },
    )
}

/// Arrow C++ with itself.
fn check_alone(cpp: &ArrowCpp, number: usize, place: Place) -> Verdict {
    let structs = cpp.export(number, place)?;
    unsafe { cpp.compare(number, structs) }
}

/// That Arrow C++'s array comes back to it as it was, from an export, an import and another export.
fn check_round_trip(cpp: &ArrowCpp, number: usize) -> Verdict {
    let structs = cpp.export(number, Place::Host)?;
    let expected = (SeenSchema::of(&structs.schema), Seen::of(&structs.array.array));
    let imported = import(structs)?;
    imported.validate().map_err(words)?;
    let structs = Structs::of(&imported).map_err(words)?;
    require(structs.array.reserved == [0; 3], || "`reserved` is not zero".into())?;
    require(SeenSchema::of(&structs.schema) == expected.0, || "the schema is another one".into())?;
    Seen::of(&structs.array.array).require_same(&expected.1)?;
    unsafe { cpp.compare(number, structs) }
}

// Requirement: ARR-10, ARR-12, ARR-16, ARR-18
#[test]
fn what_arrow_cpp_exports_comes_back_to_it_as_it_was() {
    let Some(cpp) = arrow_cpp() else { return };
    let found = each_case(&cpp, Place::Host, |number, _| check_round_trip(&cpp, number));
    found.settle(
        &cpp,
        "to us and back",
        "host",
        "what_arrow_cpp_exports_comes_back_to_it_as_it_was",
    );
}

#[test]
fn what_arrow_cpp_exports_without_a_device_comes_back_to_it_as_it_was() {
    let Some(cpp) = arrow_cpp() else { return };
    let found = each_case(&cpp, Place::Host, |number, _| {
        // The device parts stay as they are.
        let mut structs = cpp.export_plain(number)?;
        let schema = unsafe { Schema::import(&mut structs.schema) }.map_err(words)?;
        let array = &mut structs.array.array;
        let imported = unsafe { Array::import_host(array, &schema) }.map_err(words)?;
        imported.validate().map_err(words)?;
        let mut structs = Structs::empty();
        let own = imported.schema().and_then(|own| own.export(&mut structs.schema));
        own.map_err(words)?;
        imported.export_host(&mut structs.array.array).map_err(words)?;
        unsafe { cpp.compare_plain(number, structs) }
    });
    let test = "what_arrow_cpp_exports_without_a_device_comes_back_to_it_as_it_was";
    found.settle(&cpp, "to us and back", "host, structs without a device", test);
}

#[test]
fn a_comparison_that_must_fail_fails() {
    let Some(cpp) = arrow_cpp() else { return };
    // Whole and sliced: other lengths and values of the same type.
    let structs = cpp.export(8, Place::Host).unwrap();
    let complaint = unsafe { cpp.compare(9, structs) }.unwrap_err();
    assert!(complaint.contains("differ"), "{complaint}");
    let structs = cpp.export(8, Place::Host).unwrap();
    let complaint = unsafe { cpp.compare(16, structs) }.unwrap_err();
    assert!(complaint.contains("the field is"), "{complaint}");
}

/// Marks a complaint as one that was expected.
const EXCEPTION: &str = "exception: ";

/// What Arrow C++ does not take over, and why.
fn refused(schema: &SeenSchema, array: &Seen) -> Option<&'static str> {
    let has_offsets = matches!(&*schema.format, b"z" | b"Z" | b"u" | b"U" | b"+l" | b"+L" | b"+m");
    if has_offsets && array.buffers[1] == 0 {
        return Some("empty arrays whose offsets are null are refused");
    }
    let is_list_view = matches!(&*schema.format, b"+vl" | b"+vL");
    if is_list_view && array.offset > 0 && array.buffers[1] == 0 {
        return Some("empty list views with an offset whose buffers are null are refused");
    }
    if &*schema.format == b"+r" && &*schema.children[1].format == b"+r" {
        return Some("run-end encoding in run-end encoding is refused");
    }
    let schemas = schema.children.iter().chain(schema.dictionary.as_deref());
    let arrays = array.children.iter().chain(array.dictionary.as_deref());
    schemas.zip(arrays).find_map(|(schema, array)| refused(schema, array))
}

/// Hands structs over to Arrow C++, which has to refuse what it is known to refuse and nothing
/// else.
fn hand_over<T>(
    structs: Structs,
    to: impl FnOnce(Structs) -> Result<T, String>,
) -> Result<T, String> {
    let reason = refused(&SeenSchema::of(&structs.schema), &Seen::of(&structs.array.array));
    match (reason, to(structs)) {
        (None, taken) => taken,
        (Some(reason), Err(_)) => Err(format!("{EXCEPTION}{reason}")),
        (Some(reason), Ok(_)) => Err(format!("no longer an exception: {reason}")),
    }
}

/// The same with numbers that mean something: Arrow C++ looks at the digits of decimals and at the
/// time of the day.
fn tame(mut plan: Plan) -> Plan {
    let width = match plan.format.to_bytes() {
        [b'd', b':', .., b'3', b'2'] | b"tdD" | b"tts" | b"ttm" => 4,
        [b'd', b':', .., b'6', b'4'] | b"tdm" | b"ttu" | b"ttn" => 8,
        [b'd', b':', .., b'2', b'5', b'6'] => 32,
        [b'd', b':', ..] => 16,
        _ => 0,
    };
    let keep = if plan.format.to_bytes() == b"tdm" { 0 } else { 1 };
    if let (true, Some(Content::Bytes(bytes))) = (width > 0, plan.buffers.get_mut(1)) {
        bytes.chunks_mut(width).for_each(|element| element[keep..].fill(0));
    }
    plan.children = plan.children.into_iter().map(tame).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(tame(*values)));
    plan
}

/// That an array of ours comes back from Arrow C++ at the same addresses.
fn check_through(cpp: &ArrowCpp, case: &Case) -> Verdict {
    let plan = tame(case.plan());
    let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
    let structs = planned(&plan, &schema_ledger, &ledger);
    let schema = SeenSchema::of(&structs.schema);
    let expected = Seen::of(&structs.array.array).with_known_nulls(&schema);
    let ours = import(structs)?;
    let structs = Structs::of(&ours).map_err(words)?;
    let structs = hand_over(structs, |structs| unsafe { cpp.relay(structs) })?;
    same(&schema, &expected, &Seen::of(&structs.array.array))?;
    let back = import(structs)?;
    back.validate().map_err(words)?;
    require(back.equals(&ours).map_err(words)?, || "the values are others".into())?;
    drop((back, ours));
    schema_ledger.settle(1)?;
    ledger.settle(1)
}

/// An array that is made by hand.
fn planned(plan: &Plan, schema_ledger: &Arc<Ledger>, ledger: &Arc<Ledger>) -> Structs {
    let (schema, array) =
        (producer::schema(plan, schema_ledger), producer::device_array(plan, ledger));
    Structs { schema, array }
}

/// That Arrow C++ hands on what it was given. It counts nulls that nobody has counted, and buffers
/// of no bytes that are null get an address.
fn same(schema: &SeenSchema, ours: &Seen, theirs: &Seen) -> Verdict {
    let counted = Seen { null_count: ours.null_count, ..theirs.clone() };
    let numbers = |seen: &Seen| (seen.length, seen.null_count, seen.offset, seen.buffers.len());
    let theirs_now = if ours.null_count == -1 { &counted } else { theirs };
    require(numbers(theirs_now) == numbers(ours), || {
        format!("{:?} became {:?}", numbers(ours), numbers(theirs))
    })?;
    let (count, is_empty) = (ours.buffers.len(), ours.offset + ours.length == 0);
    for (index, (ours, theirs)) in ours.buffers.iter().zip(&theirs.buffers).enumerate() {
        // It writes the sizes of view buffers anew.
        let is_sizes = schema.format.starts_with(b"v") && index + 1 == count;
        let is_absent = *ours == 0 && (index > 0 || is_empty);
        require(ours == theirs || is_absent || is_sizes, || {
            format!("{}: buffer {index} moved", schema.format.escape_ascii())
        })?;
    }
    let children = schema.children.iter().zip(&ours.children).zip(&theirs.children);
    for ((schema, ours), theirs) in children {
        same(schema, ours, theirs)?;
    }
    match (&schema.dictionary, &ours.dictionary, &theirs.dictionary) {
        (Some(schema), Some(ours), Some(theirs)) => same(schema, ours, theirs),
        (None, None, None) => Ok(()),
        _ => Err("a dictionary is missing".into()),
    }
}

// Requirement: ARR-10, ARR-12, ARR-15, ARR-18
#[test]
fn what_we_export_comes_back_from_arrow_cpp_at_the_same_addresses() {
    let Some(cpp) = arrow_cpp() else { return };
    let found = each_of_ours(&cpp, |case, _| check_through(&cpp, case));
    let test = "what_we_export_comes_back_from_arrow_cpp_at_the_same_addresses";
    found.settle(&cpp, "from us and back", "host", test);
}

/// Runs a check for each of our own cases.
fn each_of_ours(cpp: &ArrowCpp, check: impl Fn(&Case, &Queue) -> Verdict) -> Found {
    let cases: Vec<Case> = cases().collect();
    each(cpp, &cases, Case::to_string, check)
}

/// That Arrow C++'s array on the software device is read here as it was made, goes back, and is
/// equal there.
fn check_on_device(cpp: &ArrowCpp, number: usize, place: Place, queue: &Queue) -> Verdict {
    let structs = cpp.export(number, place)?;
    if structs.array.device_type == 1 {
        let reason = "where the first part has no buffer, they are said to be on the host";
        return Err(format!("{EXCEPTION}{reason}"));
    }
    let has_event = !structs.array.sync_event.is_null();
    require(has_event == (place == Place::Pending), || "the event is missing".into())?;
    let imported = import(structs)?;
    require(imported.device() == queue.device().id(), || "it lies elsewhere".into())?;
    imported.validate_on(queue).map_err(words)?;
    let here = imported.to_host().map_err(words)?;
    let near = Structs::of(&here).map_err(words)?;
    hand_over(near, |near| unsafe { cpp.compare(number, near) })?;
    // Arrow C++ reads offsets before it waits.
    let far = Structs::settled(&imported).map_err(words)?;
    hand_over(far, |far| unsafe { cpp.compare(number, far) })
}

#[test]
fn what_arrow_cpp_makes_on_the_software_device_is_the_same_here() {
    let Some(cpp) = arrow_cpp() else { return };
    for (place, how) in [(Place::Settled, "settled"), (Place::Pending, "with a pending event")] {
        let found =
            each_case(&cpp, place, |number, queue| check_on_device(&cpp, number, place, queue));
        let test = "what_arrow_cpp_makes_on_the_software_device_is_the_same_here";
        found.settle(&cpp, "to us and back", &format!("software device, {how}"), test);
    }
}

/// That an array of ours on the software device is the same in Arrow C++ as on the host.
fn check_from_device(cpp: &ArrowCpp, case: &Case, queue: &Queue) -> Verdict {
    let plan = tame(case.plan());
    let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
    let ours = import(planned(&plan, &schema_ledger, &ledger))?;
    let there = ours.copy_to(queue).map_err(words)?;
    // A copy on the host too: Arrow C++ refuses offsets that are null, and of those a copy leaves
    // one.
    let here = ours.copy_with(&Queue::host(), &Options::new().always(true)).map_err(words)?;
    let (near, far) =
        (Structs::of(&here).map_err(words)?, Structs::settled(&there).map_err(words)?);
    hand_over(far, |far| unsafe { cpp.equal(near, far) })?;
    queue.synchronize().map_err(words)?;
    drop((ours, here, there));
    wait_until_released(TIMEOUT).map_err(words)?;
    schema_ledger.settle(1)?;
    ledger.settle(1)
}

#[test]
fn what_we_put_on_the_software_device_is_the_same_in_arrow_cpp() {
    let Some(cpp) = arrow_cpp() else { return };
    let found = each_of_ours(&cpp, |case, queue| check_from_device(&cpp, case, queue));
    let test = "what_we_put_on_the_software_device_is_the_same_in_arrow_cpp";
    found.settle(&cpp, "from us", "software device, settled", test);
}

#[test]
fn a_moved_child_of_an_array_of_arrow_cpp_outlives_its_parent() {
    let Some(cpp) = arrow_cpp() else { return };
    let before = cpp.allocated();
    let (arrays, _) = cpp.counts();
    let batch = import(cpp.export(arrays, Place::Host).unwrap()).unwrap();
    let mut structs = Structs::of(&batch).unwrap();
    drop(batch);
    let array = consumer::move_out(&mut structs.array.array);
    consumer::release_in_order(array, consumer::Order::ParentFirst).unwrap();
    drop(structs);
    assert_eq!(cpp.allocated(), before);
}
