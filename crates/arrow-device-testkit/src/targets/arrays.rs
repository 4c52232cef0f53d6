//! Trees of `ArrowArray` structs with anything wrong, against a schema.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::{Array, DeviceType, Schema, validate};

use super::links::{Links, PADDED, Releases, absurd};
use crate::consumer::{self, Order, Seen};
use crate::generate::{self, Budget, Choices};
use crate::ledger::{Bytes, Ledger};
use crate::oracle;
use crate::plan::{Content, Plan};

/// Imports a valid tree that was spoiled in some places, or a valid tree with the schema of
/// another.
///
/// # Panics
/// Panics on a finding.
pub fn arrays(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let spoils: Vec<[u8; 12]> =
        (0..choices.below(5)).map(|_| std::array::from_fn(|_| choices.byte())).collect();
    let (order, is_mismatch) = (choices.pick(&Order::ALL), choices.once_in(12));
    let plan = generate::plan(&mut choices);
    let expected_type =
        if is_mismatch { generate::schema(&mut choices, Budget::default()) } else { plan.clone() };
    let schema = generate::import_schema(&expected_type).expect("a schema that is valid");

    let mut wild = Wild::new(&plan);
    spoils.iter().for_each(|how| wild.spoil(&mut Choices::new(how)));
    wild.is_honest &= !is_mismatch;
    let tree = ArrayTree::new(&wild);
    let mut base = tree.base(&wild);
    let was_released = base.is_released();
    let structure = unsafe { validate::structure(&base) };
    let layout = unsafe { validate::layout(&base, &schema) };
    tree.releases.check(0);
    let outcome = unsafe { Array::import(&mut base, &schema) };
    assert!(base.is_released(), "the source was not marked as released");
    assert_eq!(layout.is_ok(), outcome.is_ok(), "{layout:?} and {outcome:?}");
    match outcome {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let is_valid = spoils.is_empty() && !is_mismatch;
            assert!(!is_valid, "a valid array was refused: {error}");
        }
        Ok(array) => {
            assert!(!was_released, "a released array was accepted");
            assert!(structure.is_ok() || wild.edges == 0, "{structure:?}");
            tree.releases.check(0);
            look_at(&array, &schema);
            if wild.is_honest && array.device().device_type == DeviceType::CPU {
                read(&array, spoils.is_empty().then_some(&plan));
            }
            hand_on(array, order, &tree);
        }
    }
    tree.close(usize::from(!was_released));
}

/// Calls everything that needs no byte of the data.
fn look_at(array: &Array, schema: &Schema) {
    array.validate_layout().expect("what was accepted is well laid out");
    assert!(!format!("{array:?}").is_empty());
    assert_eq!(&array.schema().expect("a schema"), schema);
    assert!(array.null_count().is_none_or(|nulls| nulls <= array.len()), "{array:?}");
    assert!(array.offset().checked_add(array.len()).is_some(), "{array:?}");
    let half = array.len() / 2;
    let part = array.slice(half, array.len() - half).expect("within the array");
    assert_eq!(part.offset(), array.offset() + half);
    array.slice(half, array.len() - half + 1).expect_err("past the end");
    for index in 0..array.child_count() {
        let child = array.child(index).expect("a child");
        (0..child.buffer_count())
            .for_each(|buffer| assert!(child.extent(buffer).at_least() < u64::MAX));
    }
    array.child(array.child_count()).expect_err("no such child");
}

/// Reads the data. The memory is as large as the structs say.
fn read(array: &Array, unspoiled: Option<&Plan>) {
    let verdict = array.validate();
    if let Some(plan) = unspoiled {
        verdict.as_ref().expect("a valid array");
        let copy = oracle::plan_of(array).expect("bytes of the array");
        assert_eq!(oracle::require_equal(plan, &copy), Ok(()));
    }
    if verdict.is_ok() {
        let copy = oracle::plan_of(array).expect("bytes of an array that is valid");
        oracle::values(&copy).expect("values of an array that is valid");
    }
}

/// Exports the array, imports it again, exports that, and releases its parts in some order.
fn hand_on(array: Array, order: Order, tree: &ArrayTree) {
    let mut exported = ArrowDeviceArray::empty();
    array.export(&mut exported).expect("what was imported can be exported");
    let schema = array.schema().expect("a schema");
    drop(array);
    let seen = Seen::of(&exported.array);
    let again = unsafe { Array::import(&mut exported, &schema) }.expect("our own export");
    let mut exported = ArrowDeviceArray::empty();
    again.export(&mut exported).expect("what was imported can be exported");
    drop(again);
    assert_eq!(Seen::of(&exported.array).require_same(&seen), Ok(()));
    tree.releases.check(0);
    assert_eq!(consumer::release_in_order(exported.array, order), Ok(()));
}

#[derive(Clone, Debug)]
struct ArrayNode {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    /// The entries of the table of buffers, `None` where there is no table.
    buffers: Option<Vec<Content>>,
    links: Links,
}

/// A tree, and the device that it is said to lie on.
struct Wild {
    nodes: Vec<ArrayNode>,
    device_type: i32,
    device_id: i64,
    has_event: bool,
    /// How many wrong edges may still be made.
    edges: usize,
    /// Whether there is as much memory as the structs say.
    is_honest: bool,
}

impl Wild {
    fn new(plan: &Plan) -> Self {
        let mut nodes = Vec::new();
        planned(plan, &mut nodes);
        let device_type = DeviceType::CPU.0;
        Self { nodes, device_type, device_id: -1, has_event: false, edges: 1, is_honest: true }
    }

    fn spoil(&mut self, choices: &mut Choices<'_>) {
        let count = self.nodes.len();
        let node = &mut self.nodes[choices.below(256) % count];
        let kind = choices.below(16);
        // These changes make arrays look larger than they are.
        self.is_honest &= ![0, 1, 3, 5, 6, 15].contains(&kind);
        match kind {
            0 => node.length = length(choices),
            1 => node.offset = length(choices),
            2 => node.null_count = absurd(choices),
            3 => node.n_buffers = absurd(choices),
            4 => node.buffers = None,
            5 | 6 => {
                let entry = choices.below(PADDED);
                if let Some(buffer) = node.buffers.as_mut().and_then(|all| all.get_mut(entry)) {
                    *buffer = Content::At(choices.pick(&[1, 8, 0xdead_0000, usize::MAX - 7]));
                }
            }
            7 | 8 => {
                let entry = choices.below(PADDED);
                if let Some(buffer) = node.buffers.as_mut().and_then(|all| all.get_mut(entry)) {
                    *buffer = Content::Null;
                }
            }
            9 => self.device_type = choices.pick(&[0, 2, 3, 9, 12, 15, 4711, -1, i32::MIN]),
            10 => self.device_id = choices.number(),
            11 => self.has_event = true,
            _ => {
                let edges = self.edges;
                node.links.spoil(choices, count, &mut self.edges);
                // A part of another type has other buffers.
                self.is_honest &= edges == self.edges;
            }
        }
    }
}

/// Returns a length that is wrong by little or by much.
fn length(choices: &mut Choices<'_>) -> i64 {
    if choices.once_in(2) { absurd(choices) } else { choices.below(64) as i64 }
}

fn planned(plan: &Plan, nodes: &mut Vec<ArrayNode>) -> usize {
    let number = nodes.len();
    nodes.push(ArrayNode {
        length: plan.length,
        null_count: plan.null_count,
        offset: plan.offset,
        n_buffers: plan.buffers.len() as i64,
        buffers: Some(plan.buffers.clone()),
        links: Links::default(),
    });
    let children: Vec<_> = plan.children.iter().map(|child| Some(planned(child, nodes))).collect();
    let dictionary = plan.dictionary.as_ref().map(|values| planned(values, nodes));
    let n_children = children.len() as i64;
    nodes[number].links =
        Links { n_children, children: Some(children), dictionary, is_released: false };
    number
}

/// The structs in memory, at addresses that do not change.
struct ArrayTree {
    structs: Vec<UnsafeCell<ArrowArray>>,
    _children: Vec<Vec<*mut ArrowArray>>,
    _buffers: Vec<Vec<*const c_void>>,
    /// Each in an allocation of its own, so that access to a byte too far is seen.
    contents: Vec<Bytes>,
    ledger: Arc<Ledger>,
    event: Box<usize>,
    releases: Arc<Releases>,
}

impl ArrayTree {
    fn new(wild: &Wild) -> Self {
        let (releases, ledger) = (Arc::new(Releases::default()), Ledger::new());
        let empty = |_: &ArrayNode| UnsafeCell::new(ArrowArray::empty());
        let structs: Vec<_> = wild.nodes.iter().map(empty).collect();
        let (mut children, mut buffers, mut contents) = (Vec::new(), Vec::new(), Vec::new());
        for (number, node) in wild.nodes.iter().enumerate() {
            let mut table = node.links.table(|child| structs[child].get());
            let shown = if table.is_empty() { ptr::null_mut() } else { table.as_mut_ptr() };
            children.push(table);
            let mut entries: Vec<*const c_void> = node
                .buffers
                .iter()
                .flatten()
                .map(|buffer| pointer(buffer, &ledger, &mut contents))
                .collect();
            entries.resize(entries.len().max(PADDED), ptr::null());
            let has_table = node.buffers.is_some();
            let shown_buffers = if has_table { entries.as_mut_ptr() } else { ptr::null_mut() };
            buffers.push(entries);
            let release = if number == 0 { release_base } else { release_other };
            let made = ArrowArray {
                length: node.length,
                null_count: node.null_count,
                offset: node.offset,
                n_buffers: node.n_buffers,
                n_children: node.links.n_children,
                buffers: shown_buffers,
                children: shown,
                dictionary: node.links.dictionary.map_or(ptr::null_mut(), |to| structs[to].get()),
                release: (!node.links.is_released).then_some(release as _),
                private_data: Arc::as_ptr(&releases).cast_mut().cast(),
            };
            unsafe { structs[number].get().write(made) };
        }
        Self {
            structs,
            _children: children,
            _buffers: buffers,
            contents,
            ledger,
            event: Box::new(0),
            releases,
        }
    }

    /// Checks that the base was released so often and nothing else ever, and that nobody wrote to
    /// the data.
    fn close(mut self, releases: usize) {
        self.releases.check(releases);
        self.contents.clear();
        assert_eq!(self.ledger.complaints(), Ok(()));
    }

    /// Returns the base structure, moved out. An edge that leads to the root leads to a copy that
    /// is not released.
    fn base(&self, wild: &Wild) -> ArrowDeviceArray {
        let event = (&raw const *self.event).cast_mut().cast();
        ArrowDeviceArray {
            array: unsafe { ptr::read(self.structs[0].get()) },
            device_id: wild.device_id,
            device_type: wild.device_type,
            sync_event: if wild.has_event { event } else { ptr::null_mut() },
            reserved: [0x5a5a; 3],
        }
    }
}

fn pointer(content: &Content, ledger: &Arc<Ledger>, contents: &mut Vec<Bytes>) -> *const c_void {
    match content {
        Content::Null => ptr::null(),
        Content::At(address) => ptr::without_provenance(*address),
        Content::On(memory) => memory.as_ptr(),
        Content::Bytes(bytes) => {
            let bytes = Bytes::new(bytes.clone(), ledger);
            let address = bytes.address();
            contents.push(bytes);
            address
        }
    }
}

unsafe extern "C" fn release_base(array: *mut ArrowArray) {
    let releases = unsafe { &*(*array).private_data.cast::<Releases>() };
    releases.of_the_base.fetch_add(1, Ordering::SeqCst);
    unsafe { (*array).release = None };
}

unsafe extern "C" fn release_other(array: *mut ArrowArray) {
    let releases = unsafe { &*(*array).private_data.cast::<Releases>() };
    releases.of_others.fetch_add(1, Ordering::SeqCst);
    unsafe { (*array).release = None };
}
