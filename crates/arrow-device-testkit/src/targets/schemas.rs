//! Trees of `ArrowSchema` structs with anything wrong.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_device::abi::ArrowSchema;
use arrow_device::{Schema, validate};

use super::links::{Links, Releases, absurd};
use crate::consumer::{self, SeenSchema};
use crate::generate::{self, Budget, Choices};
use crate::plan::{Plan, metadata};

/// Imports a valid tree or any tree that was spoiled in some places.
///
/// # Panics
/// Panics on a finding.
pub fn schemas(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let nodes = nodes(&mut choices);
    let tree = SchemaTree::new(&nodes);
    let mut base = unsafe { ptr::read(tree.structs[0].get()) };
    let was_released = base.is_released();
    let _ = unsafe { validate::schema_structure(&base) };
    tree.releases.check(0);
    let outcome = unsafe { Schema::import(&mut base) };
    assert!(base.is_released(), "the source was not marked as released");
    tree.releases.check(usize::from(!was_released));
    drop(tree);
    let schema = match outcome {
        Ok(schema) => schema,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!was_released, "a released schema was accepted");
    assert!(format!("{schema}{schema:?}").len() > 4);
    let mut exported = ArrowSchema::empty();
    schema.export(&mut exported).expect("what was read can be exported");
    let seen = SeenSchema::of(&exported);
    let again = unsafe { Schema::import(&mut exported) }.expect("what was exported can be read");
    assert_eq!(again, schema);
    let mut exported = ArrowSchema::empty();
    again.export(&mut exported).expect("and exported");
    assert_eq!(SeenSchema::of(&exported), seen);
    assert_eq!(consumer::release(exported), Ok(()));
}

#[derive(Clone, Debug)]
struct SchemaNode {
    format: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    metadata: Option<Vec<u8>>,
    flags: i64,
    links: Links,
}

fn nodes(choices: &mut Choices<'_>) -> Vec<SchemaNode> {
    let spoils = choices.below(5);
    let mut wrong: Vec<(usize, [u8; 20])> = Vec::new();
    for _ in 0..spoils {
        wrong.push((choices.below(256), std::array::from_fn(|_| choices.byte())));
    }
    let mut nodes = Vec::new();
    if choices.once_in(2) {
        any_node(choices, &mut nodes, 4);
    } else {
        let plan = generate::schema(choices, Budget::default());
        planned(&plan, &mut nodes);
    }
    let mut edges = 1;
    for (number, how) in wrong {
        let count = nodes.len();
        spoil(&mut nodes[number % count], &mut Choices::new(&how), count, &mut edges);
    }
    nodes
}

/// Adds a valid tree.
fn planned(plan: &Plan, nodes: &mut Vec<SchemaNode>) -> usize {
    let number = nodes.len();
    nodes.push(SchemaNode {
        format: Some(plan.format.as_bytes().to_vec()),
        name: plan.name.as_ref().map(|name| name.as_bytes().to_vec()),
        metadata: plan.metadata.clone(),
        flags: plan.flags,
        links: Links::default(),
    });
    let children: Vec<_> = plan.children.iter().map(|child| Some(planned(child, nodes))).collect();
    let dictionary = plan.dictionary.as_ref().map(|values| planned(values, nodes));
    let n_children = children.len() as i64;
    nodes[number].links =
        Links { n_children, children: Some(children), dictionary, is_released: false };
    number
}

/// Adds a tree whose formats do not fit its children.
fn any_node(choices: &mut Choices<'_>, nodes: &mut Vec<SchemaNode>, depth: usize) -> usize {
    let number = nodes.len();
    let known = ["+s", "i", "+l", "+m", "+r", "+us:0,1", "+ud:7", "+w:2", "u", "+vl", "d:9,2", "s"];
    let format = if choices.once_in(4) { string(choices) } else { choices.pick(&known).into() };
    let name = choices.once_in(2).then(|| string(choices));
    let (metadata, flags) = (some_metadata(choices), i64::from(choices.byte()));
    nodes.push(SchemaNode { format: Some(format), name, metadata, flags, links: Links::default() });
    let count = if depth == 0 || nodes.len() > 20 { 0 } else { choices.below(4) };
    let children: Vec<_> = (0..count).map(|_| Some(any_node(choices, nodes, depth - 1))).collect();
    let has_dictionary = depth > 0 && choices.once_in(6);
    let dictionary = has_dictionary.then(|| any_node(choices, nodes, depth - 1));
    let n_children = count as i64;
    nodes[number].links =
        Links { n_children, children: Some(children), dictionary, is_released: false };
    number
}

fn spoil(node: &mut SchemaNode, choices: &mut Choices<'_>, nodes: usize, edges: &mut usize) {
    match choices.below(8) {
        0 => node.format = None,
        1 => node.format = Some(string(choices)),
        2 => node.name = Some(string(choices)),
        3 => node.metadata = Some(wrong_metadata(choices)),
        4 => node.flags = choices.number(),
        _ => node.links.spoil(choices, nodes, edges),
    }
}

/// Returns a few bytes without a zero among them.
fn string(choices: &mut Choices<'_>) -> Vec<u8> {
    let len = choices.below(16);
    (0..len).map(|_| choices.byte()).filter(|byte| *byte != 0).collect()
}

fn some_metadata(choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    match choices.below(4) {
        0 | 1 => None,
        2 => Some(metadata(&[])),
        _ => {
            let (key, value) = (string(choices), string(choices));
            Some(metadata(&[(&key, &value), (&value, &key)]))
        }
    }
}

/// Returns metadata with claims that have to be refused at once. Nobody can tell that there is less
/// memory than it claims.
fn wrong_metadata(choices: &mut Choices<'_>) -> Vec<u8> {
    let wrong = match absurd(choices) as i32 {
        number if (0..=1 << 26).contains(&number) => -1 - number,
        number => number,
    };
    let key = string(choices);
    let mut bytes = if choices.once_in(2) { vec![] } else { metadata(&[(&key, b"")]) };
    if let Some(last) = bytes.len().checked_sub(4) {
        bytes.truncate(last);
    }
    bytes.extend(wrong.to_ne_bytes());
    bytes
}

/// The structs in memory, at addresses that do not change.
struct SchemaTree {
    structs: Vec<UnsafeCell<ArrowSchema>>,
    _tables: Vec<Vec<*mut ArrowSchema>>,
    _strings: Vec<Vec<u8>>,
    releases: Arc<Releases>,
}

impl SchemaTree {
    fn new(nodes: &[SchemaNode]) -> Self {
        let releases = Arc::new(Releases::default());
        let empty = |_: &SchemaNode| UnsafeCell::new(ArrowSchema::empty());
        let structs: Vec<_> = nodes.iter().map(empty).collect();
        let mut tables = Vec::new();
        let mut strings: Vec<Vec<u8>> = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let mut pointer = |bytes: &Option<Vec<u8>>| -> *const c_char {
                let Some(bytes) = bytes else { return ptr::null() };
                strings.push([bytes, &[0][..]].concat());
                strings.last().map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
            };
            let (format, name) = (pointer(&node.format), pointer(&node.name));
            let metadata = pointer(&node.metadata);
            let mut table = node.links.table(|child| structs[child].get());
            let children = if table.is_empty() { ptr::null_mut() } else { table.as_mut_ptr() };
            tables.push(table);
            let release = if number == 0 { release_base } else { release_other };
            let made = ArrowSchema {
                format,
                name,
                metadata,
                flags: node.flags,
                n_children: node.links.n_children,
                children,
                dictionary: node.links.dictionary.map_or(ptr::null_mut(), |to| structs[to].get()),
                release: (!node.links.is_released).then_some(release as _),
                private_data: Arc::as_ptr(&releases).cast_mut().cast(),
            };
            unsafe { structs[number].get().write(made) };
        }
        Self { structs, _tables: tables, _strings: strings, releases }
    }
}

unsafe extern "C" fn release_base(schema: *mut ArrowSchema) {
    let releases = unsafe { &*(*schema).private_data.cast::<Releases>() };
    releases.of_the_base.fetch_add(1, Ordering::SeqCst);
    unsafe { (*schema).release = None };
}

unsafe extern "C" fn release_other(schema: *mut ArrowSchema) {
    let releases = unsafe { &*(*schema).private_data.cast::<Releases>() };
    releases.of_others.fetch_add(1, Ordering::SeqCst);
    unsafe { (*schema).release = None };
}
