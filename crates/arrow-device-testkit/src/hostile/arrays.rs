//! Arrays with something wrong.

use std::ptr;
use std::sync::Arc;

use arrow_device::abi::ArrowArray;
use arrow_device::{ErrorKind, Step};

use super::{Hostile, Owed, every_layout, named, plain_columns, plan_at, refusal};
use crate::kinds::Kind;
use crate::plan::{Content, Nulls, Plan, Window};

/// Returns the node that the steps lead to.
pub(super) fn node<'a>(mut array: &'a mut ArrowArray, steps: &[Step]) -> &'a mut ArrowArray {
    for step in steps {
        array = match step {
            Step::Child(index) => unsafe { &mut **array.children.add(*index) },
            _ => unsafe { &mut *array.dictionary },
        };
    }
    array
}

/// Returns every member of every node, made wrong in turn.
pub(super) fn members() -> Vec<Hostile> {
    let root = every_layout();
    let mut all = Vec::new();
    members_below(&root, &root, &[], &mut all);
    let columns = plain_columns();
    let mut of_columns = Vec::new();
    members_below(&columns, &columns, &[], &mut of_columns);
    all.extend(of_columns.into_iter().map(|hostile| {
        let name = format!("{}, among plain columns", hostile.name);
        Hostile { name, ..hostile }
    }));
    let released = refusal(ErrorKind::Released, &[]);
    all.push(Hostile::of_array("released", &root, released, |array| array.array.release = None));
    all
}

fn members_below(root: &Arc<Plan>, plan: &Plan, steps: &[Step], all: &mut Vec<Hostile>) {
    use ErrorKind::{Malformed, Released, SchemaMismatch};
    let mut add = |what: &str, owed: Owed, spoil: Box<dyn Fn(&mut ArrowArray)>| {
        let at = steps.to_vec();
        let spoil = move |array: &mut arrow_device::abi::ArrowDeviceArray| {
            spoil(node(&mut array.array, &at));
        };
        all.push(Hostile::of_array(named(plan, steps, what), root, owed, spoil));
    };
    let here = |kind| refusal(kind, steps);
    for wrong in [-1, i64::MIN, i64::MAX] {
        add(&format!("length {wrong}"), here(Malformed), Box::new(move |node| node.length = wrong));
        let spoil = Box::new(move |node: &mut ArrowArray| node.offset = wrong);
        add(&format!("offset {wrong}"), here(Malformed), spoil);
    }
    for wrong in [-2, -7, i64::MIN, plan.length + 1, i64::MAX] {
        let spoil = Box::new(move |node: &mut ArrowArray| node.null_count = wrong);
        add(&format!("null count {wrong}"), here(Malformed), spoil);
    }
    let children = plan.children.len() as i64;
    let too_few = (children > 0).then_some(children - 1);
    for wrong in [-1, children + 1, i64::MIN, i64::MAX].into_iter().chain(too_few) {
        let spoil = Box::new(move |node: &mut ArrowArray| node.n_children = wrong);
        add(&format!("{wrong} children"), here(SchemaMismatch), spoil);
    }
    if children > 0 {
        let spoil = Box::new(|node: &mut ArrowArray| node.children = ptr::null_mut());
        add("no table of children", here(Malformed), spoil);
    }
    let is_views = plan.format.to_bytes().starts_with(b"v");
    let buffers = plan.buffers.len() as i64;
    let too_few = if is_views { 2 } else { buffers - 1 };
    let too_few = (buffers > 0).then_some(too_few);
    // An array of views may have any higher number of buffers. A null array may have a buffer that
    // means something to its producer.
    let is_null = plan.format.to_bytes() == b"n";
    let too_many = (!is_views).then_some(buffers + 1 + i64::from(is_null));
    for wrong in [-1, i64::MIN, i64::MAX].into_iter().chain(too_few).chain(too_many) {
        let spoil = Box::new(move |node: &mut ArrowArray| node.n_buffers = wrong);
        add(&format!("{wrong} buffers"), here(SchemaMismatch), spoil);
    }
    if buffers > 0 || is_null {
        let spoil = Box::new(|node: &mut ArrowArray| {
            (node.n_buffers, node.buffers) = (node.n_buffers.max(1), ptr::null_mut());
        });
        add("no table of buffers", here(Malformed), spoil);
    }
    let is_text = matches!(plan.format.to_bytes(), b"u" | b"U" | b"z" | b"Z");
    for (index, content) in plan.buffers.iter().enumerate() {
        let is_data_of_views = is_views && (2..plan.buffers.len() - 1).contains(&index);
        let is_optional = matches!(content, Content::Null) || is_data_of_views;
        if !(is_optional || is_text && index == 2) {
            let spoil = move |node: &mut ArrowArray| unsafe {
                *node.buffers.add(index) = ptr::null();
            };
            add(&format!("buffer {index} missing"), here(Malformed), Box::new(spoil));
        }
    }
    if plan.dictionary.is_some() {
        let spoil = Box::new(|node: &mut ArrowArray| node.dictionary = ptr::null_mut());
        add("no dictionary", here(SchemaMismatch), spoil);
    } else {
        let spoil = Box::new(|node: &mut ArrowArray| node.dictionary = ptr::from_mut(node));
        add("a dictionary", here(SchemaMismatch), spoil);
    }
    if !steps.is_empty() {
        add("released", here(Released), Box::new(|node| node.release = None));
    }
    for (index, child) in plan.children.iter().enumerate() {
        let below = [steps, &[Step::Child(index)]].concat();
        let at = steps.to_vec();
        let spoil = move |array: &mut arrow_device::abi::ArrowDeviceArray| unsafe {
            *node(&mut array.array, &at).children.add(index) = ptr::null_mut();
        };
        let owed = refusal(Malformed, &below);
        all.push(Hostile::of_array(named(plan, &below, "no struct"), root, owed, spoil));
        members_below(root, child, &below, all);
    }
    if let Some(values) = &plan.dictionary {
        members_below(root, values, &[steps, &[Step::Dictionary]].concat(), all);
    }
}

/// Returns parents that are too long and children that are too short.
pub(super) fn too_short() -> Vec<Hostile> {
    let root = every_layout();
    let child = Step::Child;
    let spoiled = |steps: &[Step], seen_at: &[Step], what: &str, spoil: fn(&mut ArrowArray)| {
        let at = steps.to_vec();
        let owed = refusal(ErrorKind::Malformed, seen_at);
        Hostile::of_array(named(plan_at(&root, steps), steps, what), &root, owed, move |array| {
            spoil(node(&mut array.array, &at));
        })
    };
    let shorter: [(&[Step], i64); 6] = [
        (&[child(2)], 4),
        (&[child(7), child(0)], 9),
        (&[child(8), child(1)], 4),
        (&[child(10), child(0)], 4),
        (&[child(13), child(0)], 0),
        (&[child(13), child(1)], 2),
    ];
    let mut all: Vec<Hostile> = shorter
        .into_iter()
        .map(|(steps, length)| {
            let owed = refusal(ErrorKind::Malformed, steps);
            let (what, at) = (format!("only {length} elements"), steps.to_vec());
            Hostile::of_array(
                named(plan_at(&root, steps), steps, &what),
                &root,
                owed,
                move |array| {
                    let node = node(&mut array.array, &at);
                    (node.length, node.null_count) = (length, -1);
                },
            )
        })
        .collect();
    let columns = plain_columns();
    all.extend((0..columns.children.len()).map(|index| {
        let owed = refusal(ErrorKind::Malformed, &[child(index)]);
        let what = format!("one element less than the batch of {}", columns.children.len());
        let name = named(&columns.children[index], &[child(index)], &what);
        Hostile::of_array(name, &columns, owed, move |array| {
            let column = node(&mut array.array, &[child(index)]);
            (column.length, column.null_count) = (column.length - 1, -1);
        })
    }));
    let run_ends = [child(13), child(0)];
    all.push(spoiled(&run_ends, &run_ends, "run ends that are null", |node| node.null_count = 1));
    all.push(spoiled(&[], &[child(0)], "an offset of the parent", |node| node.offset = 1));
    all.push(spoiled(&[], &[child(0)], "a longer parent", |node| {
        (node.length, node.null_count) = (6, -1);
    }));
    all
}

/// Returns base structures whose other members are wrong.
pub(super) fn devices() -> Vec<Hostile> {
    let plan = Arc::new(Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::None));
    let mut all = Vec::new();
    // Type 0 is left out: a struct that nobody filled has it, and a consumer may refuse that.
    for device_type in [5, 6, 17, 18, 257, 300, 4711, -1, i32::MIN, i32::MAX] {
        let name = format!("a device of type {device_type}");
        all.push(Hostile::of_array(name, &plan, Owed::Acceptance, move |array| {
            array.device_type = device_type;
            // The type of the device is unknown, so nobody may follow the event.
            array.sync_event = ptr::dangling_mut::<u64>().cast();
        }));
    }
    for id in [0, 1, -2, i64::MIN, i64::MAX] {
        let name = format!("host memory number {id}");
        let spoil = move |array: &mut arrow_device::abi::ArrowDeviceArray| array.device_id = id;
        all.push(Hostile::of_array(name, &plan, Owed::Acceptance, spoil));
    }
    for garbage in [1, -1, i64::MIN, 0x5555_5555_5555_5555] {
        let name = format!("reserved is {garbage:#x}");
        all.push(Hostile::of_array(name, &plan, Owed::Acceptance, move |array| {
            array.reserved = [garbage; 3];
        }));
    }
    for device_type in [1, 9, 15, 16] {
        let name = format!("an event on a device of type {device_type}, which has none");
        let owed = refusal(ErrorKind::Malformed, &[]);
        all.push(Hostile::of_array(name, &plan, owed, move |array| {
            array.device_type = device_type;
            array.sync_event = ptr::dangling_mut::<u64>().cast();
        }));
    }
    all
}

/// Returns structs that form no tree, and very deep trees.
pub(super) fn trees() -> Vec<Hostile> {
    let number = || Kind::Fixed("l", 8);
    let pair = || Kind::Struct(vec![number(), number()]);
    let plan = |kind: Kind| Arc::new(kind.plan(Window::WHOLE, Nulls::None));
    let mismatch = |steps: &[Step]| refusal(ErrorKind::SchemaMismatch, steps);
    const FIRST: Step = Step::Child(0);
    let nested = plan(Kind::Struct(vec![Kind::Struct(vec![number()])]));
    let mut all = vec![
        Hostile::of_array(
            "a child that is its own child",
            &nested,
            mismatch(&[FIRST; 2]),
            |array| {
                let child = node(&mut array.array, &[FIRST]);
                unsafe { *child.children = ptr::from_mut(child) };
            },
        ),
        Hostile::of_array(
            "children that are their own parent, twice",
            &plan(Kind::Struct(vec![pair()])),
            mismatch(&[FIRST; 2]),
            |array| {
                let child = node(&mut array.array, &[FIRST]);
                for index in 0..2 {
                    unsafe { *child.children.add(index) = ptr::from_mut(child) };
                }
            },
        ),
        // Nothing is read or freed twice here. To find the repetition takes a sort, which only
        // validation does.
        Hostile::of_array(
            "the same child twice",
            &plan(Kind::Struct(vec![number(), number()])),
            Owed::Acceptance,
            |array| unsafe { *array.array.children.add(1) = *array.array.children },
        ),
        Hostile::of_array(
            "a child that is the dictionary too",
            &plan(Kind::Struct(vec![number(), Kind::Dictionary("c", 1, Box::new(number()))])),
            Owed::Acceptance,
            |array| {
                let shared = ptr::from_mut(node(&mut array.array, &[FIRST]));
                node(&mut array.array, &[Step::Child(1)]).dictionary = shared;
            },
        ),
        Hostile::of_array(
            "a dictionary that is its own",
            &plan(Kind::Dictionary("c", 1, Box::new(Kind::Fixed("c", 1)))),
            mismatch(&[Step::Dictionary]),
            |array| {
                let values = node(&mut array.array, &[Step::Dictionary]);
                values.dictionary = ptr::from_mut(values);
            },
        ),
        Hostile::of_array(
            "a batch of which a column has gone",
            &plan(Kind::Struct(vec![number(), number()])),
            refusal(ErrorKind::Released, &[Step::Child(1)]),
            |array| node(&mut array.array, &[Step::Child(1)]).release = None,
        ),
    ];
    let deep = (0..64).fold(number(), |inner, _| Kind::List("+l", 4, Box::new(inner)));
    let bottom = vec![FIRST; 64];
    let at = bottom.clone();
    all.push(Hostile::of_array(
        "nonsense 64 levels down",
        // The array has no elements, because with two for each element there would be 2^64 at the
        // bottom.
        &Arc::new(deep.plan(Window::ABSENT, Nulls::None)),
        refusal(ErrorKind::Malformed, &bottom),
        move |array| node(&mut array.array, &at).length = -1,
    ));
    all
}
