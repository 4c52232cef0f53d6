//! nanoarrow takes arrays of every type over, copies them, moves them, and builds some itself; and
//! what it does wrong.

use std::sync::Arc;

use arrow_device::abi::ArrowSchema;
use arrow_device::{Array, DataType, Schema, validate};
use arrow_device_testkit::consumer::{Seen, SeenSchema};
use arrow_device_testkit::kinds::{cases, kinds};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Plan, Window};
use arrow_device_testkit::process::{self, End};
use arrow_device_testkit::{Verdict, producer, require};
use foreign_peers::Structs;
use foreign_peers::nanoarrow::{Nanoarrow, nanoarrow};
use foreign_peers::table::{self, Found, Table};

const TYPES: &str = "every type, every nesting of two";

fn words(error: arrow_device::Error) -> String {
    error.to_string()
}

fn import(mut structs: Structs) -> Result<Array, String> {
    let Structs { schema, array } = &mut structs;
    unsafe { validate::schema_structure(schema) }.map_err(words)?;
    unsafe { validate::structure(array) }.map_err(words)?;
    let schema = unsafe { Schema::import(schema) }.map_err(words)?;
    let array = unsafe { Array::import(array, &schema) }.map_err(words)?;
    array.validate().map_err(words)?;
    Ok(array)
}

fn planned(plan: &Plan, schema_ledger: &Arc<Ledger>, ledger: &Arc<Ledger>) -> Structs {
    let (schema, array) =
        (producer::schema(plan, schema_ledger), producer::device_array(plan, ledger));
    Structs { schema, array }
}

const NO_BYTES: (&str, &str) = ("Expected size > 0 for fixed size binary", "`w:0` is refused");

const EMPTY_SLICE: (&str, &str) =
    ("Expected string array buffer", "an empty slice of text is refused");
const VIEWS: (&str, &str) = ("the view is into buffer", "the data buffers of views are lost");
const LIST_VIEWS: (&str, &str) =
    ("buffer 2 is null but length", "the sizes of list views are lost");

/// Runs a check for all of our cases; whatever it says each is released once.
fn each_case(known: &[(&str, &'static str)], check: impl Fn(Structs) -> Verdict) -> Found {
    let mut found = Found::default();
    for case in cases() {
        let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
        let verdict = check(planned(&case.plan(), &schema_ledger, &ledger));
        found.count(&case, verdict, known);
        found.count(&case, schema_ledger.settle(1).and(ledger.settle(1)), &[]);
    }
    // Of each case its releases were counted too.
    found.good -= cases().count();
    found
}

// Requirement: ARR-10, ARR-12, ARR-15, ARR-18
#[test]
fn what_we_export_comes_back_from_nanoarrow_at_the_same_addresses() {
    let Some(nano) = nanoarrow() else { return };
    let found = each_case(&[NO_BYTES, EMPTY_SLICE], |structs| {
        let ours = import(structs)?;
        let structs = Structs::of(&ours).map_err(words)?;
        let expected = Seen::of(&structs.array.array);
        let schema = SeenSchema::of(&structs.schema);
        let structs = unsafe { nano.relay(structs) }?;
        Seen::of(&structs.array.array).require_same(&expected)?;
        require(SeenSchema::of(&structs.schema) == schema, || "another schema".into())?;
        let back = import(structs)?;
        require(back.equals(&ours).map_err(words)?, || "the values are others".into())
    });
    let test = "what_we_export_comes_back_from_nanoarrow_at_the_same_addresses";
    found.settle(&nano.name(), "from us and back", TYPES, test);
}

// Requirement: ARR-10, ARR-12, ARR-18
#[test]
fn what_nanoarrow_copies_is_the_same_here() {
    let Some(nano) = nanoarrow() else { return };
    let found = each_case(&[NO_BYTES, EMPTY_SLICE, VIEWS, LIST_VIEWS], |structs| {
        let ours = import(structs)?;
        let structs = Structs::of(&ours).map_err(words)?;
        let back = import(unsafe { nano.copy(structs) }?)?;
        require(back.equals(&ours).map_err(words)?, || "the values are others".into())
    });
    found.settle(
        &nano.name(),
        "from us, copied, to us",
        TYPES,
        "what_nanoarrow_copies_is_the_same_here",
    );
}

#[test]
fn what_nanoarrow_builds_is_read_here() {
    let Some(nano) = nanoarrow() else { return };
    let ids =
        "unions are built with type ids 0, 1 and so on, whatever the type says, or not at all";
    let runs = "run-end encodings are given nulls of their own, and no runs";
    let known = [
        NO_BYTES,
        ("ArrowArrayStartAppending", ids),
        ("is none of the union", ids),
        ("is not within the 0 of the dictionary", "keys of empty elements lead nowhere"),
        ("has no nulls of its own", runs),
        ("there are no run ends", runs),
        (
            "Expected bool array buffer",
            "empty lists of a fixed number of booleans have too few bits",
        ),
    ];
    let mut found = Found::default();
    for kind in kinds() {
        let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
        let structs = planned(&kind.plan(Window::EMPTY, Nulls::None), &schema_ledger, &ledger);
        let empty = import(structs).unwrap();
        let mut schema = ArrowSchema::empty();
        empty.schema().unwrap().export(&mut schema).unwrap();
        let built = nano
            .build(&mut schema, 3)
            .and_then(import)
            .and_then(|built| require(built.len() == 6, || format!("{} elements", built.len())));
        found.count(&kind, built, &known);
    }
    found.settle(&nano.name(), "built, to us", TYPES, "what_nanoarrow_builds_is_read_here");
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3), Some(4)]).unwrap()
}

fn fault(nano: &Nanoarrow, what: &str, how: &str, here: &str, test: &str) {
    table::check(Table::Faults, &[&nano.name(), what, how, here], test);
}

#[test]
fn a_move_to_a_device_that_cannot_succeeds_and_does_nothing() {
    const TEST: &str = "a_move_to_a_device_that_cannot_succeeds_and_does_nothing";
    let Some(nano) = nanoarrow() else { return };
    let (code, out) = nano.move_to_other_device(Structs::of(&numbers()).unwrap());
    assert_eq!(code, 0, "it has learned to refuse");
    assert!(out.array.is_released());
    let how = "returns 0 and writes nothing";
    fault(nano, "a move to a device that cannot move", how, "a released struct is refused", TEST);
    let (schema, mut out) = (numbers().schema().unwrap(), out);
    assert!(unsafe { Array::import(&mut out.array, &schema) }.is_err());
}

#[test]
fn copies_of_views_have_lost_buffers() {
    const TEST: &str = "copies_of_views_have_lost_buffers";
    let Some(nano) = nanoarrow() else { return };
    let texts = [Some("longer than a view can hold"), Some("short")];
    let views = Array::from_texts(DataType::Utf8View, texts).unwrap();
    let copied = unsafe { nano.copy(Structs::of(&views).unwrap()) }.unwrap();
    assert_eq!(copied.array.array.n_buffers, 3);
    let complaint = import(copied).unwrap_err();
    assert!(complaint.contains("the view is into buffer 0 of 0"), "{complaint}");
    let here = "`validate` says which view leads nowhere";
    fault(nano, "a copy of text in views", "has no data buffers", here, TEST);

    let lists = Array::builder(DataType::list_view(DataType::Int32))
        .len(2)
        .buffers([None, Some(vec![2_i32, 0].into()), Some(vec![2_i32, 2].into())])
        .children([numbers()])
        .finish_ready()
        .unwrap();
    let copied = unsafe { nano.copy(Structs::of(&lists).unwrap()) }.unwrap();
    let complaint = import(copied).unwrap_err();
    assert!(complaint.contains("buffer 2 is null but length is 2"), "{complaint}");
    fault(nano, "a copy of list views", "has no sizes", "the import is an error", TEST);
}

#[test]
fn asking_for_metal_where_there_is_none_crashes_it() {
    const TEST: &str = "asking_for_metal_where_there_is_none_crashes_it";
    let Some(nano) = nanoarrow() else { return };
    let Some(end) = process::end_of(|| assert!(!unsafe { nano.has_metal() })) else { return };
    assert_eq!(end, End::Crashed, "it no longer crashes");
    let mut structs = Structs::of(&numbers()).unwrap();
    (structs.array.device_type, structs.array.device_id) = (8, 0);
    let schema = unsafe { Schema::import(&mut structs.schema) }.unwrap();
    let array = unsafe { Array::import(&mut structs.array, &schema) }.unwrap();
    assert!(array.host().is_err());
    let here = "imported, handed on, and only refused to who would use it";
    fault(nano, "an array on Metal where there is no Metal", "crashes", here, TEST);
}

#[test]
fn a_device_of_somebody_else_is_not_known_to_it() {
    const TEST: &str = "a_device_of_somebody_else_is_not_known_to_it";
    let Some(nano) = nanoarrow() else { return };
    let mut structs = Structs::of(&numbers()).unwrap();
    (structs.array.device_type, structs.array.device_id) = (12, 7);
    let said = match unsafe { nano.copy(structs) } {
        Ok(_) => panic!("it knows the device"),
        Err(said) => said,
    };
    assert!(said.contains("SetArray"), "{said}");
    let here = "devices are registered by whoever opens them";
    fault(nano, "devices of others, as EXT_DEV", "cannot be registered: refused", here, TEST);
}
