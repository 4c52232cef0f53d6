//! Array structs with anything wrong: each is a typed error at the right place, released once, and nothing leaks.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use std::ptr;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Error, ErrorKind, Place, Result, Schema, Step};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window};
use arrow_device_testkit::producer::{self, Manner};
use arrow_device_testkit::{Verdict, assert_complaint, require};
use proptest::prelude::*;

/// A struct with a column of every layout.
fn plan() -> Plan {
    let number = || Box::new(Kind::Fixed("l", 8));
    let fields = || vec![Kind::Fixed("s", 2), Kind::Text("u", 4)];
    let columns = vec![
        Kind::Null,
        Kind::Bits,
        Kind::Fixed("i", 4),
        Kind::Text("U", 8),
        Kind::Views("vu"),
        Kind::List("+l", 4, Box::new(Kind::Text("z", 4))),
        Kind::ListView("+vL", 8, number()),
        Kind::FixedList(2, number()),
        Kind::Struct(fields()),
        Kind::Map(Box::new(Kind::Text("u", 4)), number()),
        Kind::Sparse(fields()),
        Kind::Dense(fields()),
        Kind::Dictionary("c", 1, Box::new(Kind::List("+l", 4, number()))),
        Kind::RunEnds("i", 4, number()),
    ];
    Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted)
}

/// An implementation: takes an array over. What it returns keeps it.
type Import<'a> = dyn Fn(&mut ArrowDeviceArray, &Schema) -> Result<Box<dyn std::any::Any>> + 'a;

fn ours(array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn std::any::Any>> {
    let array = unsafe { Array::import(array, schema) }?;
    Ok(Box::new(array))
}

fn schema_of(plan: &Plan) -> Schema {
    let mut c_schema: ArrowSchema = producer::schema(plan, &Ledger::new());
    unsafe { Schema::import(&mut c_schema) }.unwrap()
}

/// One thing that is wrong, and what is to be said of it.
struct Wrong {
    name: String,
    steps: Vec<Step>,
    spoil: Box<dyn Fn(&mut ArrowArray)>,
    kind: ErrorKind,
    /// Where the error is seen, from the node that is spoiled.
    seen_at: Vec<Step>,
}

fn node<'a>(mut array: &'a mut ArrowArray, steps: &[Step]) -> &'a mut ArrowArray {
    for step in steps {
        array = match step {
            Step::Child(index) => unsafe { &mut **array.children.add(*index) },
            _ => unsafe { &mut *array.dictionary },
        };
    }
    array
}

/// Every member of every node, wrong in turn.
fn everything_wrong(plan: &Plan, steps: &[Step], all: &mut Vec<Wrong>) {
    use ErrorKind::{Malformed, Released, SchemaMismatch};
    let mut add = |name: &str, kind, spoil: Box<dyn Fn(&mut ArrowArray)>| {
        let steps = steps.to_vec();
        let name = format!("{} {steps:?}: {name}", plan.format.to_str().unwrap());
        all.push(Wrong { name, seen_at: steps.clone(), steps, spoil, kind });
    };
    for wrong in [-1, i64::MIN, i64::MAX] {
        add(&format!("length {wrong}"), Malformed, Box::new(move |node| node.length = wrong));
        add("offset", Malformed, Box::new(move |node| node.offset = wrong));
    }
    for wrong in [-2, i64::MIN, plan.length + 1, i64::MAX] {
        add("null count", Malformed, Box::new(move |node| node.null_count = wrong));
    }
    let children = plan.children.len() as i64;
    for wrong in [-1, children - 1, children + 1, i64::MIN, i64::MAX] {
        add("children", SchemaMismatch, Box::new(move |node| node.n_children = wrong));
    }
    if children > 0 {
        add("table", Malformed, Box::new(|node| node.children = ptr::null_mut()));
    }
    let is_views = plan.format.to_bytes().starts_with(b"v");
    let buffers = plan.buffers.len() as i64;
    let too_few = if is_views { 2 } else { buffers - 1 };
    for wrong in [-1, too_few, i64::MIN, i64::MAX] {
        add("buffers", SchemaMismatch, Box::new(move |node| node.n_buffers = wrong));
    }
    if !is_views {
        let too_many = buffers + 1;
        add("buffers", SchemaMismatch, Box::new(move |node| node.n_buffers = too_many));
    }
    if buffers > 0 {
        add("table", Malformed, Box::new(|node| node.buffers = ptr::null_mut()));
    }
    let is_text = matches!(plan.format.to_bytes(), b"u" | b"U" | b"z" | b"Z");
    for (index, content) in plan.buffers.iter().enumerate() {
        let is_data_of_views = is_views && (2..plan.buffers.len() - 1).contains(&index);
        let is_optional = matches!(content, Content::Null) || is_data_of_views;
        if !(is_optional || is_text && index == 2) {
            let spoil =
                move |node: &mut ArrowArray| unsafe { *node.buffers.add(index) = ptr::null() };
            add("a missing buffer", Malformed, Box::new(spoil));
        }
    }
    if plan.dictionary.is_some() {
        add("dictionary", SchemaMismatch, Box::new(|node| node.dictionary = ptr::null_mut()));
    } else {
        add("dictionary", SchemaMismatch, Box::new(|node| node.dictionary = ptr::from_mut(node)));
    }
    if !steps.is_empty() {
        add("released", Released, Box::new(|node| node.release = None));
    }
    for (index, child) in plan.children.iter().enumerate() {
        let below = [steps, &[Step::Child(index)]].concat();
        all.push(Wrong {
            name: format!("{} {below:?}: null", plan.format.to_str().unwrap()),
            steps: steps.to_vec(),
            spoil: Box::new(move |node| unsafe { *node.children.add(index) = ptr::null_mut() }),
            kind: Malformed,
            seen_at: below.clone(),
        });
        everything_wrong(child, &below, all);
    }
    if let Some(values) = &plan.dictionary {
        everything_wrong(values, &[steps, &[Step::Dictionary]].concat(), all);
    }
}

/// What a longer parent and a shorter child show.
fn children_too_short() -> Vec<Wrong> {
    let child = Step::Child;
    let shorter = |steps: &[Step], length: i64| Wrong {
        name: format!("{steps:?}: only {length} elements"),
        steps: steps.to_vec(),
        spoil: Box::new(move |node| (node.length, node.null_count) = (length, -1)),
        kind: ErrorKind::Malformed,
        seen_at: steps.to_vec(),
    };
    let mut all = vec![
        shorter(&[child(2)], 4),
        shorter(&[child(7), child(0)], 9),
        shorter(&[child(8), child(1)], 4),
        shorter(&[child(10), child(0)], 4),
        shorter(&[child(13), child(0)], 0),
        shorter(&[child(13), child(1)], 2),
    ];
    all.push(Wrong {
        name: "run ends that are null".into(),
        spoil: Box::new(|node| node.null_count = 1),
        ..shorter(&[child(13), child(0)], 0)
    });
    all.push(Wrong {
        name: "an offset of the parent".into(),
        spoil: Box::new(|node| node.offset = 1),
        seen_at: vec![child(0)],
        ..shorter(&[], 0)
    });
    all
}

fn check_refused(import: &Import<'_>, plan: &Plan, schema: &Schema, wrong: &Wrong) -> Verdict {
    let ledger = Ledger::new();
    let base = producer::array_in_manner(plan, &ledger, Manner::AllByTheBase);
    let mut array = producer::on_device(base, 1, -1);
    (wrong.spoil)(node(&mut array.array, &wrong.steps));
    let error = match import(&mut array, schema) {
        Ok(_) => return Err("accepted".into()),
        Err(error) => error,
    };
    require(error.kind() == wrong.kind, || format!("{error} and not {:?}", wrong.kind))?;
    let place = error.place().cloned().unwrap_or(Place::ROOT);
    require(place.steps() == wrong.seen_at, || {
        format!("{error} names {place} and not {:?}", wrong.seen_at)
    })?;
    require(array.is_released(), || "the source was not marked as released".into())?;
    ledger.settle(1)
}

fn all_wrong() -> Vec<Wrong> {
    let mut all = children_too_short();
    everything_wrong(&plan(), &[], &mut all);
    // Too many run ends are too few values.
    let run_ends = format!("i [Child(13), Child(0)]: length {}", i64::MAX);
    let wrong = all.iter_mut().find(|wrong| wrong.name == run_ends).unwrap();
    wrong.seen_at = vec![Step::Child(13), Step::Child(1)];
    all
}

// Requirement: ARR-17, ARR-18, SYS-2
#[test]
fn an_array_with_any_member_wrong_is_refused_at_its_place_and_released_once() {
    let (plan, schema) = (plan(), schema_of(&plan()));
    let all = all_wrong();
    println!("{} wrong arrays", all.len());
    assert!(all.len() > 700, "{}", all.len());
    let stride = if cfg!(miri) { 61 } else { 1 };
    for wrong in all.iter().step_by(stride) {
        assert_eq!(check_refused(&ours, &plan, &schema, wrong), Ok(()), "{}", wrong.name);
    }
}

/// A wrong implementation that takes anything, and releases it as often as it is told.
struct Trusting(ArrowDeviceArray, usize);

impl Drop for Trusting {
    fn drop(&mut self) {
        let release = self.0.array.release;
        for _ in 0..self.1 {
            if let Some(release) = release {
                unsafe { release(&mut self.0.array) };
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn implementations_that_trust_or_leak_or_release_twice_are_found_out() {
    let (plan, schema) = (plan(), schema_of(&plan()));
    let wrong = all_wrong().into_iter().find(|wrong| wrong.steps == [Step::Child(5)]).unwrap();
    let taken = |array: &mut ArrowDeviceArray, releases| {
        let moved = ArrowDeviceArray { array: unsafe { ptr::read(&array.array) }, ..*array };
        array.array.release = None;
        Trusting(moved, releases)
    };
    let check = |import: &Import<'_>| check_refused(import, &plan, &schema, &wrong);
    assert_complaint(check(&|array, _| Ok(Box::new(taken(array, 1)))), "accepted");
    let error = || Error::new(ErrorKind::Malformed, "no").at(Place::new([Step::Child(5)]));
    let refusing = |releases| {
        move |array: &mut ArrowDeviceArray, _: &Schema| {
            drop(taken(array, releases));
            Err(error())
        }
    };
    assert_eq!(check(&refusing(1)), Ok(()));
    assert_complaint(check(&refusing(0)), "0 releases of 1");
    assert_complaint(check(&refusing(2)), "released twice");
    let vague = |array: &mut ArrowDeviceArray, schema: &Schema| {
        ours(array, schema).map_err(|_| Error::new(ErrorKind::Malformed, "no"))
    };
    assert_complaint(check(&vague), "names root");
    let unkind = |array: &mut ArrowDeviceArray, schema: &Schema| {
        ours(array, schema).map_err(|_| Error::new(ErrorKind::Peer, "no"))
    };
    assert_complaint(check(&unkind), "and not");
}

/// What an importer does with a node before it looks: it overlooks one mistake.
type Overlook = fn(&mut ArrowArray);

#[test]
fn an_importer_that_overlooks_one_rule_is_found_out() {
    let plan = Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::Counted);
    let schema = schema_of(&plan);
    let mut all = Vec::new();
    everything_wrong(&plan, &[], &mut all);
    fn make_empty(node: &mut ArrowArray) {
        (node.length, node.null_count) = (0, 0);
    }
    let overlooked: [(&str, Overlook); 8] = [
        ("length", |node| {
            if node.length != 5 {
                make_empty(node)
            }
        }),
        ("offset", |node| node.offset = 0),
        ("null count", |node| {
            if !(-1..=node.length).contains(&node.null_count) {
                node.null_count = -1;
            }
        }),
        ("children", |node| node.n_children = 0),
        ("buffers", |node| node.n_buffers = 2),
        ("table", |node| {
            if node.buffers.is_null() {
                node.buffers = BUFFERS.as_ptr().cast_mut().cast();
                make_empty(node);
            }
        }),
        ("a missing buffer", |node| {
            let is_missing = |index| unsafe { *node.buffers.add(index) }.is_null();
            if !node.buffers.is_null() && (is_missing(0) || is_missing(1)) {
                make_empty(node);
            }
        }),
        ("dictionary", |node| node.dictionary = ptr::null_mut()),
    ];
    for (name, overlook) in overlooked {
        let lenient = |array: &mut ArrowDeviceArray, schema: &Schema| {
            overlook(&mut array.array);
            ours(array, schema)
        };
        let of_this_rule = |wrong: &Wrong| wrong.name.contains(&format!("[]: {name}"));
        for wrong in &all {
            let verdict = check_refused(&lenient, &plan, &schema, wrong);
            if of_this_rule(wrong) {
                assert_complaint(verdict, "accepted");
            } else {
                assert_eq!(verdict, Ok(()), "{} without {name}", wrong.name);
            }
        }
        assert!(all.iter().any(of_this_rule), "{name}");
    }
}

/// A table of two buffers that are not there.
static BUFFERS: [usize; 2] = [0; 2];

// Requirement: SYS-2
#[test]
fn a_null_pointer_and_a_released_array_are_errors() {
    let schema = schema_of(&plan());
    let error = unsafe { Array::import(ptr::null_mut(), &schema) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = unsafe { Array::import_host(ptr::null_mut(), &schema) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = unsafe { Array::import(&mut ArrowDeviceArray::empty(), &schema) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Released);
}

// Requirement: SYS-2
#[test]
fn an_array_that_is_its_own_child_ends_where_the_schema_does() {
    let number = Kind::Struct(vec![Kind::Struct(vec![Kind::Fixed("l", 8)])]);
    let plan = number.plan(Window::WHOLE, Nulls::None);
    let wrong = Wrong {
        name: "a cycle".into(),
        steps: vec![Step::Child(0)],
        spoil: Box::new(|node| unsafe { *node.children = ptr::from_mut(node) }),
        kind: ErrorKind::SchemaMismatch,
        seen_at: vec![Step::Child(0); 2],
    };
    assert_eq!(check_refused(&ours, &plan, &schema_of(&plan), &wrong), Ok(()));
}

/// A member of a struct that a random test sets.
#[derive(Clone, Copy, Debug)]
enum Member {
    Length,
    Offset,
    NullCount,
    Buffers,
    Children,
    BufferTable,
    ChildTable,
    Buffer,
    Child,
    Dictionary,
    Release,
}

const MEMBERS: [Member; 11] = [
    Member::Length,
    Member::Offset,
    Member::NullCount,
    Member::Buffers,
    Member::Children,
    Member::BufferTable,
    Member::ChildTable,
    Member::Buffer,
    Member::Child,
    Member::Dictionary,
    Member::Release,
];

/// Sets a member, as far as whether that is right can be told without trusting a pointer that is not null.
fn spoil(node: &mut ArrowArray, member: Member, value: i64, planned: &Plan) {
    let (buffers, children) = (planned.buffers.len(), planned.children.len());
    let index = value.unsigned_abs() as usize;
    match member {
        Member::Length => node.length = value,
        Member::Offset => node.offset = value,
        Member::NullCount => node.null_count = value,
        // Of view arrays a table that is too short cannot be told.
        Member::Buffers if planned.format.to_bytes().starts_with(b"v") => {
            node.n_buffers = value.min(2);
        }
        Member::Buffers => node.n_buffers = value,
        Member::Children => node.n_children = value,
        Member::BufferTable => node.buffers = ptr::null_mut(),
        Member::ChildTable => node.children = ptr::null_mut(),
        Member::Buffer if buffers > 0 && !node.buffers.is_null() => unsafe {
            *node.buffers.add(index % buffers) = ptr::null();
        },
        Member::Child if children > 0 && !node.children.is_null() => unsafe {
            *node.children.add(index % children) = ptr::null_mut();
        },
        Member::Dictionary => node.dictionary = ptr::null_mut(),
        Member::Release => node.release = None,
        _ => {}
    }
}

/// The structs of an array as they are before anything is spoiled, with the plan of each.
fn nodes<'a>(array: *mut ArrowArray, plan: &'a Plan, all: &mut Vec<(*mut ArrowArray, &'a Plan)>) {
    all.push((array, plan));
    for (index, child) in plan.children.iter().enumerate() {
        nodes(unsafe { *(*array).children.add(index) }, child, all);
    }
    if let Some(values) = &plan.dictionary {
        nodes(unsafe { (*array).dictionary }, values, all);
    }
}

fn check_random(import: &Import<'_>, spoils: &[(usize, usize, i64)], shrunk: bool) -> Verdict {
    let plan = if shrunk { plan().children.swap_remove(5) } else { plan() };
    let schema = schema_of(&plan);
    let ledger: Arc<Ledger> = Ledger::new();
    let base = producer::array_in_manner(&plan, &ledger, Manner::AllByTheBase);
    let mut array = producer::on_device(base, 1, -1);
    let mut original = unsafe { ptr::read(&array.array) };
    let mut all = Vec::new();
    nodes(&raw mut array.array, &plan, &mut all);
    for (number, member, value) in spoils {
        let (node, planned) = all[number % all.len()];
        spoil(unsafe { &mut *node }, MEMBERS[member % MEMBERS.len()], *value, planned);
    }
    let base_was_released = array.is_released();
    let outcome = import(&mut array, &schema);
    require(array.is_released(), || "the source was not marked as released".into())?;
    drop(outcome);
    if base_was_released {
        require(ledger.base_releases() == 0, || "a released array was released".into())?;
        unsafe { original.release.unwrap()(&mut original) };
    }
    ledger.settle(1)
}

fn numbers() -> impl Strategy<Value = i64> {
    let chosen = [0, 1, -1, 2, 5, 6, 1 << 31, 1 << 62, i64::MAX, i64::MAX - 8, i64::MIN];
    prop_oneof![proptest::sample::select(chosen.to_vec()), any::<i64>(), 0..12_i64]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 3000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // Requirement: ARR-17, SYS-2
    #[test]
    fn an_array_with_random_members_wrong_is_released_once(
        spoils in proptest::collection::vec((any::<usize>(), any::<usize>(), numbers()), 1..4),
        is_small in any::<bool>(),
    ) {
        let relay = |array: &mut ArrowDeviceArray, schema: &Schema| {
            let array = unsafe { Array::import(array, schema) }?;
            // What is accepted can be handed on.
            let mut out = ArrowDeviceArray::empty();
            array.export(&mut out)?;
            arrow_device_testkit::consumer::release(arrow_device_testkit::consumer::move_out(&mut out.array)).unwrap();
            Ok(Box::new(array) as Box<dyn std::any::Any>)
        };
        prop_assert_eq!(check_random(&relay, &spoils, is_small), Ok(()));
    }
}
