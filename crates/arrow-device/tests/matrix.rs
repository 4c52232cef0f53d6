//! Every Arrow type, in every shape, with everything that can be known of its nulls: imported, exported, handed
//! on, its children moved out, released in every order. All addresses are kept, and everything is released
//! once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Buffer, DeviceId, Field, HostArray, NodeView, Queue, Schema};
use arrow_device_testkit::consumer::{self, Order, Seen, SeenSchema};
use arrow_device_testkit::kinds::{Case, cases, kinds};
use arrow_device_testkit::ledger::{Bytes, Ledger};
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window};
use arrow_device_testkit::producer::{self, Manner};
use arrow_device_testkit::relay::{Fault, Handwritten, On, Ours, Relay, check_relay};
use arrow_device_testkit::{Verdict, assert_complaint, require};

/// How many cases one run looks at: all, or so few that an interpreter gets through them.
fn each_case(mut check: impl FnMut(usize, &Case) -> Verdict) -> usize {
    let stride = if cfg!(miri) { 499 } else { 1 };
    let mut count = 0;
    for (number, case) in cases().enumerate().step_by(stride) {
        if let Err(complaint) = check(number, &case) {
            panic!("{case}: {complaint}");
        }
        count += 1;
    }
    count
}

/// The kinds of the matrix, the windows, and what is known of nulls.
const CASES: usize = (42 + 42 * 12 + 12 * 12 + 7 + 2 + 3 + 3) * 4 * 3;

#[test]
#[cfg_attr(miri, ignore = "counts cases and follows no pointer")]
fn the_matrix_has_every_type_in_every_shape() {
    assert_eq!(cases().count(), CASES);
    println!("{CASES} arrays of {} types", kinds().len());
    let formats: std::collections::BTreeSet<_> =
        kinds().iter().map(|kind| kind.plan(Window::WHOLE, Nulls::None).format).collect();
    println!("{} formats: {formats:?}", formats.len());
    let names = [
        "n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g", "z", "Z", "vz", "u", "U",
        "vu", "tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tDs", "tDm", "tDu", "tDn", "tiM",
        "tiD", "tin", "+l", "+L", "+vl", "+vL", "+w:2", "+s", "+m", "+us:5,6", "+ud:5,6", "+r",
    ];
    for name in names {
        assert!(formats.iter().any(|format| format.to_bytes() == name.as_bytes()), "{name}");
    }
}

// Requirement: ABI-2, ABI-5, SYS-1, ARR-10, ARR-12, ARR-13, ARR-15, ARR-16, ARR-18, ARR-19
#[test]
fn every_array_is_handed_on_as_it_is() {
    let mut runs = 0;
    let count = each_case(|number, case| {
        let on = [On::CPU, On::device(2, 0), On::device(4711, i64::MAX)][number % 3];
        // An interpreter looks at one order of each array.
        let orders = if cfg!(miri) { &Order::ALL[number % 4..][..1] } else { &Order::ALL[..] };
        for order in orders.iter().copied() {
            let manner = [Manner::NodeByNode, Manner::AllByTheBase][(number + runs) % 2];
            check_relay(&Ours, &case.plan(), on, manner, order)
                .map_err(|complaint| format!("{order:?}: {complaint}"))?;
            runs += 1;
        }
        Ok(())
    });
    println!("{count} arrays handed on, released in {runs} ways");
    assert!(cfg!(miri) || (count, runs) == (CASES, CASES * 4));
}

#[test]
fn another_right_peer_passes_too() {
    each_case(|_, case| {
        let (manner, order) = (Manner::AllByTheBase, Order::ParentFirst);
        check_relay(&Handwritten(None), &case.plan(), On::CPU, manner, order)
    });
}

// Requirement: ARR-10, ARR-12, ARR-13, ARR-15, ARR-16, ARR-18, ARR-19
#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn every_wrong_peer_is_found_out() {
    let list =
        arrow_device_testkit::kinds::holders(&arrow_device_testkit::kinds::Kind::Fixed("l", 8))
            .swap_remove(5);
    let plan = list.plan(Window::SLICED, Nulls::Counted);
    let far = On::device(2, 1 << 40);
    for (fault, complaint) in [
        (Fault::CopiesBuffers, "buffers moved"),
        (Fault::ForgetsOffset, "length, null count and offset"),
        (Fault::InventsNullCount, "length, null count and offset"),
        (Fault::TruncatesDeviceId, "it lies on 2:0 now"),
        (Fault::ForgetsDeviceType, "it lies on 1:"),
        (Fault::LeavesGarbageInReserved, "`reserved` is not zero"),
        (Fault::LeavesSourceUnreleased, "the source was not marked"),
        (Fault::Leaks, "0 releases of 1 base"),
        (Fault::ReleasesEarly, "released while its consumer has it"),
        (Fault::ReleasesTwice, "released twice"),
        (Fault::ReleasesChildren, "the release of a child was called"),
        (Fault::ReleasesChildrenLast, "called after that of the base"),
        (Fault::KeepsAddressOfStruct, "0 releases of 1 base"),
        (Fault::EndsMovedChildren, "buffers moved"),
        (Fault::LeavesReleaseSet, "left the struct unreleased"),
        (Fault::WritesData, "a buffer was written to"),
    ] {
        let relay = Handwritten(Some(fault));
        let order = Order::ParentFirst;
        assert_complaint(check_relay(&relay, &plan, far, Manner::AllByTheBase, order), complaint);
    }
}

// Requirement: SYS-1, ARR-16
#[test]
fn every_array_is_imported_as_it_is() {
    let count = each_case(|_, case| check_import(&import, &case.plan()));
    println!("{count} arrays imported");
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn wrong_imports_are_found_out() {
    let plan = kinds()[42].plan(Window::WHOLE, Nulls::Counted);
    let other_address = |schema: &mut _, array: &mut _| {
        let (mut seen, bytes, keep) = import(schema, array)?;
        seen.buffers[0] += 64;
        Ok((seen, bytes, keep))
    };
    assert_complaint(check_import(&other_address, &plan), "buffers moved");
    let other_bytes = |schema: &mut _, array: &mut _| {
        let (seen, mut bytes, keep) = import(schema, array)?;
        bytes[0][0] ^= 1;
        Ok((seen, bytes, keep))
    };
    assert_complaint(check_import(&other_bytes, &plan), "reads other bytes");
    let keeps_it = |schema: &mut _, array: &mut _| {
        let (seen, bytes, keep) = import(schema, array)?;
        std::mem::forget(keep.clone());
        Ok((seen, bytes, keep))
    };
    assert_complaint(check_import(&keeps_it, &plan), "1 releases of 2");
}

type Imported = (Seen, Vec<Vec<u8>>, Array);

/// What an importer tells of an array: what it saw, the bytes of all buffers, and what keeps it.
type Import = dyn Fn(&mut ArrowSchema, &mut ArrowDeviceArray) -> Result<Imported, String>;

fn import(schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Imported, String> {
    let text = |error: arrow_device::Error| error.to_string();
    let schema = unsafe { Schema::import(schema) }.map_err(text)?;
    let array = unsafe { Array::import(array, &schema) }.map_err(text)?;
    let view = array.on(&Queue::host()).map_err(text)?;
    let seen = Seen { null_count: null_count(&array), ..seen(&view.root(), &array) };
    drop(view);
    let mut bytes = Vec::new();
    read(&array.host().map_err(text)?, &mut bytes).map_err(text)?;
    Ok((seen, bytes, array))
}

fn null_count(array: &Array) -> i64 {
    array.null_count().map_or(-1, |count| count as i64)
}

fn seen(node: &NodeView<'_>, array: &Array) -> Seen {
    let below = |node: &NodeView<'_>, array: &Array| seen(node, array);
    let buffer = |index| node.buffer(index).location().address().addr();
    Seen {
        length: node.len(),
        null_count: null_count(array),
        offset: node.offset(),
        buffers: (0..node.buffer_count()).map(buffer).collect(),
        children: (0..array.child_count())
            .map(|index| below(&node.child(index).unwrap(), &array.child(index).unwrap()))
            .collect(),
        dictionary: array
            .dictionary()
            .map(|values| Box::new(below(&node.dictionary().unwrap(), &values))),
    }
}

/// All buffers, node by node.
fn read(array: &HostArray, bytes: &mut Vec<Vec<u8>>) -> arrow_device::Result<()> {
    for index in 0..array.array().buffer_count() {
        bytes.push(array.buffer(index)?.to_vec());
    }
    (0..array.array().child_count()).try_for_each(|index| read(&array.child(index)?, bytes))?;
    array.dictionary().map_or(Ok(()), |values| read(&values, bytes))
}

/// The bytes of all buffers of a plan, in the same order, and whether some of them have to be read.
fn planned(plan: &Plan, bytes: &mut Vec<(Vec<u8>, bool)>) {
    bytes.extend(plan.buffers.iter().map(|content| match content {
        Content::Bytes(bytes) => (bytes.clone(), plan.length > 0 && !bytes.is_empty()),
        _ => (vec![], false),
    }));
    plan.children.iter().chain(plan.dictionary.as_deref()).for_each(|plan| planned(plan, bytes));
}

fn check_import(import: &Import, plan: &Plan) -> Verdict {
    let ledger = Ledger::new();
    let mut schema = producer::schema(plan, &ledger);
    let mut array = producer::device_array(plan, &ledger);
    let seen_schema = SeenSchema::of(&schema);
    let expected = Seen::of(&array.array).with_known_nulls(&seen_schema);
    let (seen, bytes, keep) = import(&mut schema, &mut array)?;
    seen.require_same(&expected)?;
    let mut all = Vec::new();
    planned(plan, &mut all);
    for (bytes, (planned, is_read)) in bytes.iter().zip(&all) {
        // What the elements up to the last one need, which may be less than there is.
        require(planned.starts_with(bytes), || {
            format!("reads other bytes: {bytes:x?} of {planned:x?}")
        })?;
        require(!is_read || !bytes.is_empty(), || "reads no bytes".into())?;
    }
    require(ledger.base_releases() == 1, || "the array was released too early".into())?;
    drop(keep);
    ledger.settle(2)
}

// Requirement: SYS-1, ARR-11, ARR-16
#[test]
fn every_array_is_exported_as_it_was_built() {
    let count = each_case(|number, case| {
        check_export(&export, &case.plan(), Order::ALL[number % Order::ALL.len()])
    });
    println!("{count} arrays built and exported");
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn wrong_exports_are_found_out() {
    let plan = kinds()[42].plan(Window::SLICED, Nulls::Counted);
    let check = |tamper: &dyn Fn(&mut Exported)| {
        let wrong = |plan: &Plan, ledger: &Arc<Ledger>| {
            let mut exported = export(plan, ledger)?;
            tamper(&mut exported);
            Ok(exported)
        };
        check_export(&wrong, &plan, Order::Whole)
    };
    assert_eq!(check(&|_| {}), Ok(()));
    assert_complaint(check(&|(_, array)| array.array.offset -= 1), "length, null count and offset");
    assert_complaint(check(&|(_, array)| array.device_id = 3), "it lies on 1:3");
    assert_complaint(
        check(&|(_, array)| array.sync_event = std::ptr::dangling_mut()),
        "it waits for an event",
    );
    assert_complaint(check(&|(schema, _)| schema.flags = 0), "the schema is");
    assert_complaint(
        check(&|(_, array)| unsafe { *array.array.buffers.add(1) = std::ptr::null() }),
        "buffers moved",
    );
    let array = &|(_, array): &mut Exported| {
        array.array = arrow_device::abi::ArrowArray {
            release: Some(forget),
            ..unsafe { std::ptr::read(&array.array) }
        }
    };
    assert_complaint(check(array), "allocations leaked");
}

unsafe extern "C" fn forget(array: *mut arrow_device::abi::ArrowArray) {
    unsafe { (*array).release = None };
}

type Exported = (ArrowSchema, ArrowDeviceArray);

/// Builds an array of a plan and hands it to a consumer. The schema is made by a producer of this ledger.
type Export<'a> = dyn Fn(&Plan, &Arc<Ledger>) -> Result<Exported, String> + 'a;

fn export(plan: &Plan, ledger: &Arc<Ledger>) -> Result<Exported, String> {
    let text = |error: arrow_device::Error| error.to_string();
    let schema = unsafe { Schema::import(&mut producer::schema(plan, ledger)) }.map_err(text)?;
    let array = build(plan, schema.field().clone(), ledger).map_err(text)?;
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    schema.export(&mut c_schema).map_err(text)?;
    array.export(&mut c_array).map_err(text)?;
    Ok((c_schema, c_array))
}

fn build(plan: &Plan, field: Field, ledger: &Arc<Ledger>) -> arrow_device::Result<Array> {
    let schema = Schema::new(field.clone())?;
    let data_type = field.data_type();
    let is_views = plan.format.to_bytes().starts_with(b"v");
    // The sizes behind view buffers are the builder's.
    let buffers = &plan.buffers[..plan.buffers.len() - usize::from(is_views)];
    let buffers = buffers.iter().map(|content| match content {
        Content::Bytes(contents) => {
            let bytes = Bytes::new(contents.clone(), ledger);
            Some(unsafe { Buffer::foreign(DeviceId::CPU, bytes.address(), bytes.len(), bytes) })
        }
        _ => None,
    });
    let mut children = Vec::new();
    for (plan, field) in plan.children.iter().zip(data_type.children()) {
        children.push(build(plan, field.clone(), ledger)?);
    }
    let mut builder = Array::builder(&schema)
        .len(plan.length as usize)
        .offset(plan.offset as usize)
        .buffers(buffers)
        .children(children);
    if let Some(values) = &plan.dictionary {
        let field = data_type.dictionary_values().unwrap().clone();
        builder = builder.dictionary(build(values, field, ledger)?);
    }
    let has_bitmap = !matches!(plan.buffers.first(), None | Some(Content::Null));
    if plan.null_count >= 0 && has_bitmap && !plan.format.to_bytes().starts_with(b"+u") {
        builder = builder.null_count(plan.null_count as usize);
    }
    builder.finish_ready()
}

fn check_export(export: &Export<'_>, plan: &Plan, order: Order) -> Verdict {
    let ledger = Ledger::new();
    let (c_schema, c_array) = export(plan, &ledger)?;
    let schema = SeenSchema::of(&c_schema);
    let planned = producer::schema(plan, &Ledger::new());
    let written = SeenSchema::of(&planned);
    consumer::release(planned)?;
    require(schema == written, || format!("the schema is {schema:?} and was to be {written:?}"))?;
    require(c_array.sync_event.is_null(), || "it waits for an event".into())?;
    require((c_array.device_type, c_array.device_id) == (1, -1), || {
        format!("it lies on {}:{}", c_array.device_type, c_array.device_id)
    })?;
    compare(&Seen::of(&c_array.array), plan, &schema)?;
    consumer::release(c_schema)?;
    consumer::release_in_order(c_array.array, order)?;
    ledger.settle(1)
}

/// That an exported array is what was planned: the numbers, and at each address the bytes.
fn compare(seen: &Seen, plan: &Plan, schema: &SeenSchema) -> Verdict {
    let expected = Seen {
        length: plan.length,
        null_count: if plan.length == 0 { 0 } else { plan.null_count },
        offset: plan.offset,
        buffers: (plan.buffers.iter())
            .map(|content| usize::from(!matches!(content, Content::Null)))
            .collect(),
        children: vec![],
        dictionary: None,
    };
    let present = seen.buffers.iter().map(|address| usize::from(*address != 0)).collect();
    let own = Seen { buffers: present, children: vec![], dictionary: None, ..seen.clone() };
    let own_schema = SeenSchema { children: vec![], dictionary: None, ..schema.clone() };
    own.require_same(&expected.with_known_nulls(&own_schema))?;
    for (address, content) in seen.buffers.iter().zip(&plan.buffers) {
        let Content::Bytes(bytes) = content else { continue };
        if cfg!(miri) {
            // With strict provenance an address that travelled as a number cannot be followed.
            continue;
        }
        let there = std::ptr::with_exposed_provenance::<u8>(*address);
        let there = unsafe { std::slice::from_raw_parts(there, bytes.len()) };
        require(there == bytes, || "an address leads to other bytes".into())?;
    }
    let below = |plan: &Plan| plan.children.iter().chain(plan.dictionary.as_deref()).count();
    let (found, planned) = (seen.children.iter().chain(seen.dictionary.as_deref()), below(plan));
    require(found.clone().count() == planned, || "a child is missing".into())?;
    let plans = plan.children.iter().chain(plan.dictionary.as_deref());
    let schemas = schema.children.iter().chain(schema.dictionary.as_deref());
    found.zip(plans.zip(schemas)).try_for_each(|(seen, (plan, schema))| compare(seen, plan, schema))
}

/// A relay can be anybody's.
#[test]
fn a_peer_is_named_by_a_trait() {
    let all: [&dyn Relay; 2] = [&Ours, &Handwritten(None)];
    let plan = kinds()[3].plan(Window::WHOLE, Nulls::Unknown);
    for relay in all {
        assert_eq!(check_relay(relay, &plan, On::CPU, Manner::NodeByNode, Order::Whole), Ok(()));
    }
}
