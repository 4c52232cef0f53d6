//! What holds for any array: whatever is done to it, its values stay the same and nothing of it is
//! left behind.
//!
//! Arrays come from the generator and values from the oracle, neither of which knows the library. A
//! failure shows the bytes of the simplest array that still fails.

use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::copy::Options;
use arrow_device::driver::HostAccess;
use arrow_device::{Array, Queue, Schema, Value, validate};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::consumer::{self, Seen};
use arrow_device_testkit::generate::{self, Choices, Generated, for_each};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::oracle::{self, plan_of, require_equal};
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window};
use arrow_device_testkit::relay::{Handwritten, Ours, Relay, RelayFault};
use arrow_device_testkit::{Verdict, kinds, producer, release_until, require, trips};

fn said(error: arrow_device::Error) -> String {
    error.to_string()
}

/// More choices for an array than those that it was made by.
fn more_choices(generated: &Generated) -> Vec<u8> {
    generated.bytes.iter().rev().map(|byte| byte.rotate_left(3)).collect()
}

/// A struct that somebody holds, and what it is.
struct Part {
    array: ArrowArray,
    plan: Plan,
    seen: Seen,
    /// Whether nothing below it was moved out.
    is_whole: bool,
}

/// Moves any children and dictionaries out, and out of those again. The parts come in any order.
fn take_apart(array: ArrowArray, plan: &Plan, choices: &mut Choices<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let (seen, mut is_whole) = (Seen::of(&array), true);
    let below = (0..plan.children.len()).map(|index| unsafe { *array.children.add(index) });
    let below = below.chain((!array.dictionary.is_null()).then_some(array.dictionary));
    let plans = plan.children.iter().chain(plan.dictionary.as_deref());
    for (child, plan) in below.zip(plans) {
        if choices.once_in(2) {
            is_whole = false;
            parts.extend(take_apart(consumer::move_out(child), plan, choices));
        }
    }
    let place = choices.below(parts.len() + 1);
    parts.insert(place, Part { array, plan: plan.clone(), seen, is_whole });
    parts
}

impl Part {
    /// Lets go of it: by its release, or by importing it and, perhaps, exporting that.
    fn finish(mut self, choices: &mut Choices<'_>, schema: &Schema) -> Verdict {
        if !self.is_whole {
            return consumer::release(self.array);
        }
        Seen::of(&self.array).require_same(&self.seen)?;
        match choices.below(3) {
            0 => consumer::release(self.array),
            how => {
                let array = unsafe { Array::import_host(&mut self.array, schema) }.map_err(said)?;
                require_equal(&self.plan, &plan_of(&array)?)?;
                if how == 1 {
                    return Ok(());
                }
                let mut exported = ArrowDeviceArray::empty();
                array.export(&mut exported).map_err(said)?;
                drop(array);
                consumer::release(exported.array)
            }
        }
    }
}

/// That an array that goes through a peer can be taken apart and let go of in any order, that each
/// part is what it was until then, and that the producer's memory is released once, when nobody has
/// any part any more.
fn check_parts(relay: &dyn Relay, generated: &Generated) -> Verdict {
    let plan = &generated.plan;
    let choices = more_choices(generated);
    let mut choices = Choices::new(&choices);
    let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
    let mut schema = producer::schema(plan, &schema_ledger);
    let mut array = producer::device_array(plan, &ledger);
    let (c_schema, c_array) = relay.relay(&mut schema, &mut array)?;
    require(ledger.base_releases() == 0, || "released while its consumer has it".into())?;
    let mut parts = take_apart(c_array.array, plan, &mut choices);
    while let Some(part) = parts.pop() {
        let schema = generate::import_schema(&part.plan).map_err(said)?;
        part.finish(&mut choices, &schema)?;
        require(parts.is_empty() || ledger.base_releases() == 0, || {
            "released while its consumer has parts of it".into()
        })?;
    }
    consumer::release(c_schema)?;
    schema_ledger.settle(1)?;
    ledger.settle(1)
}

/// What a peer refuses it has released, also the array whose schema is none.
#[test]
fn an_array_without_a_good_schema_is_released_by_the_peer_that_refuses_it() {
    let plan = arrow_device_testkit::pushed::numbers(0);
    let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
    let mut schema = producer::schema(&plan, &schema_ledger);
    let mut array = producer::device_array(&plan, &ledger);
    schema.format = c"no format".as_ptr();
    let refused = Ours.relay(&mut schema, &mut array).map(drop).unwrap_err();
    assert!(refused.contains("no format"), "{refused}");
    assert_eq!((schema_ledger.settle(1), ledger.settle(1)), (Ok(()), Ok(())));
}

// Requirement: ARR-12, ARR-13, SYS-1
#[test]
fn any_array_can_be_taken_apart_and_let_go_of_in_any_order() {
    for_each(500, 11, |generated| check_parts(&Ours, generated));
    for_each(200, 12, |generated| check_parts(&Handwritten(None), generated));
}

#[test]
fn a_peer_that_breaks_one_rule_is_found_out_by_some_array() {
    for fault in [
        RelayFault::ForgetsOffset,
        RelayFault::Leaks,
        RelayFault::LeavesReleaseSet,
        RelayFault::KeepsAddressOfStruct,
    ] {
        let complaints: Vec<String> = generate::samples(60, 13)
            .filter_map(|generated| check_parts(&Handwritten(Some(fault)), &generated).err())
            .collect();
        assert!(!complaints.is_empty(), "nobody complained of {fault:?}");
    }
}

#[test]
fn any_array_passes_all_levels_of_validation() {
    for_each(400, 14, |generated| {
        let ledger = Ledger::new();
        let schema = generate::import_schema(&generated.plan).map_err(said)?;
        let mut c_array = producer::device_array(&generated.plan, &ledger);
        unsafe { validate::structure(&c_array) }.map_err(said)?;
        unsafe { validate::layout(&c_array, &schema) }.map_err(said)?;
        let array = unsafe { Array::import(&mut c_array, &schema) }.map_err(said)?;
        array.validate_layout().map_err(said)?;
        array.validate().map_err(said)?;
        require_equal(&generated.plan, &plan_of(&array)?)?;
        drop(array);
        ledger.settle(1)
    });
}

/// The parts of an array that slices are made of.
fn cuts(generated: &Generated) -> Vec<(usize, usize)> {
    let choices = more_choices(generated);
    let mut choices = Choices::new(&choices);
    let length = generated.plan.length as usize;
    let mut cut = || {
        let offset = choices.below(length + 1);
        (offset, choices.below(length - offset + 1))
    };
    vec![(0, length), (length, 0), cut(), cut()]
}

#[test]
fn slices_are_the_elements_that_were_asked_for() {
    for_each(400, 15, |generated| {
        let ledger = Ledger::new();
        let array = generate::build(&generated.plan, &ledger).map_err(said)?;
        for (offset, length) in cuts(generated) {
            let part = array.slice(offset, length).map_err(said)?;
            let expected = oracle::slice(&generated.plan, offset, length);
            require_equal(&expected, &plan_of(&part)?)?;
            let mut exported = ArrowDeviceArray::empty();
            part.export(&mut exported).map_err(said)?;
            let schema = part.schema().map_err(said)?;
            let again = unsafe { Array::import(&mut exported, &schema) }.map_err(said)?;
            require_equal(&expected, &plan_of(&again)?)?;
            require(again.equals(&part).map_err(said)?, || "the library sees a difference".into())?;
        }
        drop(array);
        ledger.settle(0)
    });
}

/// Whether the library's reading of an element is the oracle's, as far as the two can be compared.
fn is_same(ours: &Value, oracle: &oracle::Value) -> bool {
    let are_same = |ours: &[&Value], oracle: &[oracle::Value]| {
        ours.len() == oracle.len() && ours.iter().zip(oracle).all(|(a, b)| is_same(a, b))
    };
    match (ours, oracle) {
        (Value::Null, oracle) => *oracle == oracle::Value::Null,
        (Value::Boolean(ours), oracle::Value::Bit(oracle)) => ours == oracle,
        (Value::Text(ours), oracle::Value::Text(oracle)) => ours == oracle,
        (Value::Bytes(ours), oracle::Value::Bytes(oracle)) => ours == oracle,
        (Value::List(ours), oracle::Value::Values(oracle)) => {
            are_same(&ours.iter().collect::<Vec<_>>(), oracle)
        }
        (Value::Struct(ours), oracle::Value::Values(oracle)) => {
            are_same(&ours.iter().map(|(_, value)| value).collect::<Vec<_>>(), oracle)
        }
        (Value::Map(ours), oracle::Value::Values(oracle)) => {
            let is_pair = |(ours, oracle): (&(Value, Value), &oracle::Value)| matches!(oracle, oracle::Value::Values(pair) if are_same(&[&ours.0, &ours.1], pair));
            ours.len() == oracle.len() && ours.iter().zip(oracle).all(is_pair)
        }
        (Value::Union { value, .. }, oracle::Value::Member(_, oracle)) => is_same(value, oracle),
        (Value::Int(ours), oracle::Value::Bytes(oracle)) => {
            ours.to_ne_bytes().starts_with(oracle) == cfg!(target_endian = "little")
        }
        (Value::UInt(ours), oracle::Value::Bytes(oracle)) => {
            ours.to_ne_bytes().starts_with(oracle) == cfg!(target_endian = "little")
        }
        (Value::Float64(ours), oracle::Value::Bytes(oracle)) => ours.to_ne_bytes() == **oracle,
        // Numbers that are more than their bytes.
        (_, oracle::Value::Bytes(_)) => true,
        _ => false,
    }
}

#[test]
fn the_library_reads_what_the_oracle_reads() {
    for_each(400, 17, |generated| {
        let array = generate::build(&generated.plan, &Ledger::new()).map_err(said)?;
        let host = array.host().map_err(said)?;
        for (index, expected) in oracle::values(&generated.plan)?.iter().enumerate() {
            let value = host.value(index).map_err(said)?;
            require(is_same(&value, expected), || format!("{index}: {value:?}, {expected:?}"))?;
            let is_null = host.is_null(index).map_err(said)?;
            require(is_null == value.is_null(), || format!("{index}: null is {is_null}"))?;
        }
        Ok(())
    });
}

/// All buffers of a plan that are there.
fn buffers(plan: &mut Plan) -> Vec<&mut Vec<u8>> {
    let own = plan.buffers.iter_mut().filter_map(|content| match content {
        Content::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
        _ => None,
    });
    let below = plan.children.iter_mut().chain(plan.dictionary.as_deref_mut()).flat_map(buffers);
    own.chain(below).collect()
}

#[test]
fn the_library_calls_equal_what_the_oracle_calls_equal() {
    let seen = std::cell::Cell::new([0; 2]);
    for_each(800, 18, |generated| {
        let choices = more_choices(generated);
        let mut choices = Choices::new(&choices);
        let mut changed = generated.plan.clone();
        if choices.once_in(2) {
            changed =
                generate::fill(&changed, &mut choices, changed.length as usize, <_>::default());
        }
        let mut buffers = buffers(&mut changed);
        if !buffers.is_empty() {
            let count = buffers.len();
            let bytes = &mut buffers[choices.below(count)];
            let at = choices.below(bytes.len());
            bytes[at] ^= choices.byte();
        }
        let ledger = Ledger::new();
        let one = generate::build(&generated.plan, &ledger).map_err(said)?;
        let Ok(other) = generate::build(&changed, &ledger) else { return Ok(()) };
        if other.validate().is_err() {
            return Ok(());
        }
        let expected = require_equal(&generated.plan, &changed);
        let found = one.equals(&other).map_err(said)?;
        let mut counts = seen.get();
        counts[usize::from(found)] += 1;
        seen.set(counts);
        require(found == expected.is_ok(), || format!("{found}, and {expected:?}"))
    });
    assert!(seen.get().iter().all(|count| *count > 50), "{seen:?}");
}

/// Copies an array and parts of it to a device and back, all sources let go of on the way.
fn check_copies(generated: &Generated, queue: &Queue) -> Verdict {
    let ledger = Ledger::new();
    let array = generate::build(&generated.plan, &ledger).map_err(said)?;
    for (offset, length) in cuts(generated) {
        let expected = oracle::slice(&generated.plan, offset, length);
        let part = array.slice(offset, length).map_err(said)?;
        let there = part.copy_to(queue).map_err(said)?;
        drop(part);
        if queue.device().properties().host_access == HostAccess::Mapped {
            require_equal(&expected, &plan_of(&there)?)?;
        }
        let back = there.copy_with(&Queue::host(), &Options::new().through(queue)).map_err(said)?;
        drop(there);
        require_equal(&expected, &plan_of(&back)?)?;
        back.validate().map_err(said)?;
    }
    drop(array);
    queue.synchronize().map_err(said)?;
    release_until(|| ledger.live() == 0);
    ledger.settle(0)
}

/// Runs a check on a simulator of its own for each array, which has to be clean afterwards.
fn on_the_software_device(kind: Kind, cases: u32, check: impl Fn(&Generated, &Queue) -> Verdict) {
    for_each(cases, 16, |generated| {
        let seed = generated.bytes.len() as u64;
        let sim = Sim::builder().kind(kind).seed(seed).backtraces(false).build();
        let queue = sim.device().open_queue().map_err(said)?;
        let verdict = check(generated, &queue);
        drop(queue);
        let reports = sim.finish();
        verdict?;
        require(reports.is_empty(), || format!("{reports:?}"))
    });
}

// Requirement: SYS-1
#[test]
fn copies_to_a_device_and_back_are_equal_to_what_was_copied() {
    for kind in Kind::ALL {
        on_the_software_device(kind, 100, check_copies);
    }
}

// Requirement: ARR-17
#[test]
fn copies_have_the_buffers_that_have_bytes_also_without_elements() {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let mut count = 0;
    for kind in kinds::types() {
        for window in Window::ALL {
            let array = generate::build(&kind.plan(window, Nulls::Counted), &Ledger::new());
            let array = array.unwrap();
            let len = array.len();
            for (from, rows) in [(0, len), (0, 0), (len / 2, 0), (len, 0)] {
                let part = array.slice(from, rows).unwrap();
                for way in 0..5 {
                    let to = if way % 2 == 1 { Queue::host() } else { queue.clone() };
                    let copy = part.copy_with(&to, &trips::ways_to_copy(way)).unwrap();
                    consumer::require_buffers_of(&copy)
                        .unwrap_or_else(|why| panic!("{way}, {window:?}, {from}: {why}"));
                    count += 1;
                }
            }
        }
    }
    assert!(count > 1000, "{count}");
    drop(queue);
    let reports = sim.finish();
    assert!(reports.is_empty(), "{reports:?}");
}

/// As [`check_parts`], for memory of a device: what each part is, is seen when it is copied back.
fn check_device_parts(generated: &Generated, queue: &Queue) -> Verdict {
    let choices = more_choices(generated);
    let mut choices = Choices::new(&choices);
    let array = generate::build(&generated.plan, &Ledger::new()).map_err(said)?;
    // Children with all elements that they had, those included that nothing refers to.
    let there = array.copy_with(queue, &Options::new().trim(false)).map_err(said)?;
    drop(array);
    let schema = there.schema().map_err(said)?;
    let mut c_array = ArrowDeviceArray::empty();
    // As it is, still pending; and then, since a part of it has no event of its own, when it is
    // ready.
    there.export(&mut c_array).map_err(said)?;
    drop(there);
    let again = unsafe { Array::import(&mut c_array, &schema) }.map_err(said)?;
    again.export_settled(&mut c_array).map_err(said)?;
    drop(again);
    let (device_type, device_id) = (c_array.device_type, c_array.device_id);
    let base = consumer::move_out(&raw mut c_array.array);
    let mut parts = take_apart(base, &generated.plan, &mut choices);
    while let Some(part) = parts.pop() {
        if !part.is_whole || choices.once_in(3) {
            consumer::release(part.array)?;
            continue;
        }
        let mut moved = ArrowDeviceArray {
            array: part.array,
            device_id,
            device_type,
            sync_event: ptr::null_mut(),
            reserved: [0; 3],
        };
        let schema = generate::import_schema(&part.plan).map_err(said)?;
        let array = unsafe { Array::import(&mut moved, &schema) }.map_err(said)?;
        let back = array.copy_with(&Queue::host(), &Options::new().through(queue)).map_err(said)?;
        require_equal(&part.plan, &plan_of(&back)?)?;
    }
    Ok(())
}

#[test]
fn parts_of_an_array_on_a_device_are_let_go_of_in_any_order() {
    for kind in Kind::ALL {
        on_the_software_device(kind, 100, check_device_parts);
    }
}
