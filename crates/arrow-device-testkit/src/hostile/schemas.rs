//! Schemas with something wrong.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

use arrow_device::abi::ArrowSchema;
use arrow_device::{ErrorKind, Step};

use super::{Hostile, Owed, every_layout, named, refusal};
use crate::kinds::Kind;
use crate::plan::{Nulls, Plan, Window};

fn node<'a>(mut schema: &'a mut ArrowSchema, steps: &[Step]) -> &'a mut ArrowSchema {
    for step in steps {
        schema = match step {
            Step::Child(index) => unsafe { &mut **schema.children.add(*index) },
            _ => unsafe { &mut *schema.dictionary },
        };
    }
    schema
}

/// Format strings that no format has.
const FORMATS: [&CStr; 21] = [
    c"",
    c"?",
    c"\xff",
    c"ll",
    c"d:",
    c"d:0,1",
    c"d:39,1",
    c"d:5,1,24",
    c"d:5",
    c"tsx:UTC",
    c"ts",
    c"w:",
    c"w:-1",
    c"w:99999999999999999999",
    c"+w:",
    c"+w:-2",
    c"+ud:0,0",
    c"+us:-1",
    c"+x",
    c"+",
    c"v",
];

/// Counts and lengths of metadata that are negative or absurd, and the error that is owed for each.
static METADATA: [([i32; 3], ErrorKind); 6] = [
    ([-1, 0, 0], ErrorKind::Malformed),
    ([i32::MIN, 0, 0], ErrorKind::Malformed),
    ([i32::MAX, 0, 0], ErrorKind::LimitExceeded),
    ([1, -1, 0], ErrorKind::Malformed),
    ([1, i32::MAX, 0], ErrorKind::LimitExceeded),
    ([1, 0, i32::MIN], ErrorKind::Malformed),
];

/// Returns every member of every node, made wrong in turn.
pub(super) fn members() -> Vec<Hostile> {
    let root = every_layout();
    let mut all = Vec::new();
    members_below(&root, &root, &[], &mut all);
    let released = refusal(ErrorKind::Released, &[]);
    all.push(Hostile::of_schema("released", &root, released, |schema| schema.release = None));
    all
}

fn members_below(root: &Arc<Plan>, plan: &Plan, steps: &[Step], all: &mut Vec<Hostile>) {
    use ErrorKind::{LimitExceeded, Malformed, Released};
    let mut add = |what: String, owed: Owed, spoil: Box<dyn Fn(&mut ArrowSchema)>| {
        let at = steps.to_vec();
        let spoil = move |schema: &mut ArrowSchema| spoil(node(schema, &at));
        all.push(Hostile::of_schema(named(plan, steps, &what), root, owed, spoil));
    };
    let here = |kind| refusal(kind, steps);
    let null = Box::new(|node: &mut ArrowSchema| node.format = ptr::null());
    add("no format".into(), here(Malformed), null);
    let format = |format: &'static CStr| -> Box<dyn Fn(&mut ArrowSchema)> {
        Box::new(move |node| node.format = format.as_ptr())
    };
    for wrong in FORMATS {
        add(format!("format {wrong:?}"), here(Malformed), format(wrong));
    }
    // A type with children where there are none, or the other way round.
    let other = if plan.children.is_empty() { c"+l" } else { c"l" };
    add(format!("format {other:?}"), here(Malformed), format(other));
    let spoil = Box::new(|node: &mut ArrowSchema| node.name = c"\xff".as_ptr());
    add("a name that is no text".into(), here(Malformed), spoil);
    for (encoded, kind) in &METADATA {
        let start: *const c_char = encoded.as_ptr().cast();
        let spoil = Box::new(move |node: &mut ArrowSchema| node.metadata = start);
        add(format!("metadata {encoded:?}"), here(*kind), spoil);
    }
    for flags in [-1, i64::MIN, 1 << 40] {
        let spoil = Box::new(move |node: &mut ArrowSchema| node.flags = flags);
        add(format!("flags {flags:#x}"), Owed::Acceptance, spoil);
    }
    let counts = [
        (-1, Malformed),
        (i64::MIN, Malformed),
        (i64::MAX, LimitExceeded),
        (1 << 21, LimitExceeded),
    ];
    for (wrong, kind) in counts {
        let spoil = Box::new(move |node: &mut ArrowSchema| node.n_children = wrong);
        add(format!("{wrong} children"), here(kind), spoil);
    }
    if plan.children.is_empty() {
        let spoil = Box::new(|node: &mut ArrowSchema| node.n_children = 1);
        add("1 child and no table".into(), here(Malformed), spoil);
    } else {
        let spoil = Box::new(|node: &mut ArrowSchema| node.children = ptr::null_mut());
        add("no table of children".into(), here(Malformed), spoil);
        if plan.format.to_bytes() != b"+s" {
            let spoil = Box::new(|node: &mut ArrowSchema| node.n_children = 0);
            add("no children".into(), here(Malformed), spoil);
        }
    }
    if plan.dictionary.is_some() {
        for wrong in [c"u", c"f", c"b", c"n", c"+s"] {
            add(format!("an index of type {wrong:?}"), here(Malformed), format(wrong));
        }
    }
    if !steps.is_empty() {
        let spoil = Box::new(|node: &mut ArrowSchema| unsafe { node.release.unwrap()(node) });
        add("released".into(), here(Released), spoil);
    }
    for (index, child) in plan.children.iter().enumerate() {
        let below = [steps, &[Step::Child(index)]].concat();
        let at = steps.to_vec();
        let spoil = move |schema: &mut ArrowSchema| unsafe {
            *node(schema, &at).children.add(index) = ptr::null_mut();
        };
        let owed = refusal(Malformed, &below);
        all.push(Hostile::of_schema(named(plan, &below, "no struct"), root, owed, spoil));
        members_below(root, child, &below, all);
    }
    if let Some(values) = &plan.dictionary {
        members_below(root, values, &[steps, &[Step::Dictionary]].concat(), all);
    }
}

/// Returns structs that form no tree, and very deep trees.
pub(super) fn trees() -> Vec<Hostile> {
    let number = || Kind::Fixed("l", 8);
    let plan = |kind: Kind| Arc::new(kind.plan(Window::EMPTY, Nulls::None));
    let endless = || Owed::RefusalAnywhere(ErrorKind::LimitExceeded);
    const FIRST: Step = Step::Child(0);
    let mut all = Vec::new();
    // Two children that are their own parent are 2^64 nodes before the sixty-fourth level.
    for fan_out in [1, 2, 3] {
        let inner = Kind::Struct((0..fan_out).map(|_| number()).collect());
        let name = format!("{fan_out} children that are their own parent");
        all.push(Hostile::of_schema(
            name,
            &plan(Kind::Struct(vec![inner])),
            endless(),
            move |root| {
                let child = node(root, &[FIRST]);
                for index in 0..fan_out {
                    unsafe { *child.children.add(index) = ptr::from_mut(child) };
                }
            },
        ));
    }
    let keys = Kind::Dictionary("c", 1, Box::new(Kind::Fixed("c", 1)));
    all.push(Hostile::of_schema("a dictionary of itself", &plan(keys), endless(), |root| {
        let values = node(root, &[Step::Dictionary]);
        values.dictionary = ptr::from_mut(values);
    }));
    let pair = Kind::Struct(vec![number(), number()]);
    all.push(Hostile::of_schema("the same child twice", &plan(pair), Owed::Acceptance, |root| {
        unsafe { *root.children.add(1) = *root.children };
    }));
    let deep = |levels: usize| {
        plan((0..levels).fold(number(), |inner, _| Kind::List("+l", 4, Box::new(inner))))
    };
    all.push(Hostile::of_schema("64 levels", &deep(64), Owed::Acceptance, |_| {}));
    let too_deep = refusal(ErrorKind::LimitExceeded, &[FIRST; 65]);
    all.push(Hostile::of_schema("65 levels", &deep(65), too_deep, |_| {}));
    let far_too_deep = refusal(ErrorKind::LimitExceeded, &[FIRST; 65]);
    all.push(Hostile::of_schema("200 levels", &deep(200), far_too_deep, |_| {}));
    all
}
