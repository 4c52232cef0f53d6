//! What can be told from C structs alone, and from C structs and a schema.

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{DataType, DeviceType, ErrorKind, Field, IndexType, Result, Schema, validate};

static RELEASED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn release(array: *mut ArrowArray) {
    RELEASED.fetch_add(1, Ordering::SeqCst);
    unsafe { (*array).release = None };
}

/// Structs of a producer, by number; the first is the base. Nothing is released by dropping them.
struct Tree {
    structs: Vec<Struct>,
    _children: Vec<Vec<*mut ArrowArray>>,
    _buffers: Vec<Vec<*const c_void>>,
}

/// A struct that others point to: its address is the only way to it.
struct Struct(*mut ArrowArray);

impl Deref for Struct {
    type Target = ArrowArray;

    fn deref(&self) -> &ArrowArray {
        unsafe { &*self.0 }
    }
}

impl DerefMut for Struct {
    fn deref_mut(&mut self) -> &mut ArrowArray {
        unsafe { &mut *self.0 }
    }
}

impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Drop for Struct {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Tree {
    /// A struct of two columns, the second of which has a dictionary: numbers 0, 1, 2 and 3.
    fn new() -> Self {
        let mut tree = Self { structs: Vec::new(), _children: Vec::new(), _buffers: Vec::new() };
        tree.add(1);
        tree.add(2);
        tree.add(2);
        tree.add(2);
        tree.link(0, &[1, 2]);
        tree.structs[2].dictionary = tree.address(3);
        tree
    }

    fn add(&mut self, buffers: usize) {
        static BYTES: [u64; 4] = [0; 4];
        let mut table = vec![BYTES.as_ptr().cast(); buffers];
        let array = ArrowArray {
            length: 3,
            n_buffers: buffers as i64,
            buffers: table.as_mut_ptr(),
            release: Some(release),
            ..ArrowArray::empty()
        };
        self._buffers.push(table);
        self.structs.push(Struct(Box::into_raw(Box::new(array))));
    }

    fn address(&mut self, number: usize) -> *mut ArrowArray {
        self.structs[number].0
    }

    fn link(&mut self, parent: usize, children: &[usize]) {
        let mut table: Vec<_> = children.iter().map(|child| self.address(*child)).collect();
        self.structs[parent].n_children = children.len() as i64;
        self.structs[parent].children = table.as_mut_ptr();
        self._children.push(table);
    }

    /// Runs a check on the base and sees that nothing was released or written to.
    fn check<T>(&mut self, check: impl Fn(&ArrowDeviceArray) -> Result<T>) -> Result<T> {
        let mut base = ArrowDeviceArray::empty();
        base.device_type = DeviceType::CPU.0;
        base.array = unsafe { std::ptr::read(self.structs[0].0) };
        let before = format!("{:?}", self.structs);
        let result = check(&base);
        assert_eq!(format!("{:?}", self.structs), before);
        result
    }

    fn structure(&mut self) -> Result<validate::Summary> {
        self.check(|base| unsafe { validate::structure(base) })
    }

    fn flaw(&mut self) -> (ErrorKind, String) {
        let error = self.structure().unwrap_err();
        (error.kind(), format!("{}: {}", error.place().unwrap(), error.message()))
    }
}

fn schema() -> Schema {
    Schema::batch([
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::dictionary(IndexType::Int8, DataType::Int64), true),
    ])
    .unwrap()
}

fn broken(breaks: impl FnOnce(&mut Tree)) -> (ErrorKind, String) {
    let mut tree = Tree::new();
    breaks(&mut tree);
    tree.flaw()
}

fn malformed(message: &str) -> (ErrorKind, String) {
    (ErrorKind::Malformed, message.to_owned())
}

#[test]
fn a_sound_tree_is_counted_and_left_as_it_is() {
    let summary = Tree::new().structure().unwrap();
    assert_eq!((summary.nodes, summary.buffers, summary.depth), (4, 7, 2));
    Tree::new().check(|base| unsafe { validate::layout(base, &schema()) }).unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
}

// Requirement: SYS-2, ARR-17
#[test]
fn counts_out_of_range_are_refused() {
    assert_eq!(broken(|it| it.structs[1].length = -1), malformed("root.child[0]: length is -1"));
    assert_eq!(broken(|it| it.structs[1].offset = -5), malformed("root.child[0]: offset is -5"));
    assert_eq!(
        broken(|it| it.structs[3].null_count = 4),
        malformed("root.child[1].dictionary: null count is 4 for length 3")
    );
    assert_eq!(
        broken(|it| it.structs[3].null_count = -2),
        malformed("root.child[1].dictionary: null count is -2 for length 3")
    );
    assert_eq!(
        broken(|it| it.structs[0].n_buffers = -1),
        malformed("root: the number of buffers is -1")
    );
    assert_eq!(
        broken(|it| it.structs[0].n_buffers = i64::MAX),
        malformed(&format!("root: the number of buffers is {}", i64::MAX))
    );
    assert_eq!(
        broken(|it| it.structs[0].n_children = -1),
        malformed("root: the number of children is -1")
    );
    let (_, message) = broken(|it| it.structs[1].offset = i64::MAX);
    assert!(message.ends_with("are more than any memory holds"), "{message}");
    let mut edge = Tree::new();
    edge.structs[1].offset = i64::MAX - 3;
    edge.structs[2].null_count = -1;
    edge.structs[3].null_count = 3;
    edge.structure().unwrap();
}

// Requirement: SYS-2
#[test]
fn missing_tables_and_children_are_refused() {
    assert_eq!(
        broken(|it| it.structs[1].buffers = null_mut()),
        malformed("root.child[0]: the table of 2 buffers is null")
    );
    assert_eq!(
        broken(|it| it.structs[0].children = null_mut()),
        malformed("root: the table of 2 children is null")
    );
    let null = "root.child[1]: a null pointer in place of a struct";
    assert_eq!(
        broken(|it| unsafe { it.structs[0].children.add(1).write(null_mut()) }),
        malformed(null)
    );
    assert_eq!(
        broken(|it| it.structs[2].release = None),
        (ErrorKind::Released, "root.child[1]: this struct is released".into())
    );
    assert_eq!(
        broken(|it| it.structs[0].release = None),
        (ErrorKind::Released, "root: this struct is released".into())
    );
}

#[test]
fn pointers_that_are_not_aligned_are_refused() {
    assert_eq!(
        broken(|it| it.structs[2].dictionary =
            it.address(3).wrapping_byte_add(align_of::<ArrowArray>() / 2)),
        malformed("root.child[1].dictionary: the pointer to it is not aligned")
    );
    assert_eq!(
        broken(|it| it.structs[0].children = it.structs[0].children.wrapping_byte_add(1)),
        malformed("root: the table of 2 children is not aligned")
    );
}

// Requirement: SYS-2
#[test]
fn a_struct_with_two_parents_is_refused() {
    let shared = broken(|it| it.structs[1].dictionary = it.address(3));
    assert_eq!(
        shared,
        malformed("root.child[1].dictionary: the same struct is at root.child[0].dictionary too")
    );
    assert_eq!(
        broken(|it| it.link(0, &[1, 2, 1])),
        malformed("root.child[2]: the same struct is at root.child[0] too")
    );
}

// Requirement: SYS-2
#[test]
fn trees_without_end_are_refused() {
    let (kind, message) = broken(|it| it.structs[1].dictionary = it.address(1));
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert!(message.ends_with("there are more than 64 levels"), "{message}");
    // A million structs take Miri too long.
    if !cfg!(miri) {
        let (kind, _) = broken(|it| it.link(1, &[1, 1, 1]));
        assert_eq!(kind, ErrorKind::LimitExceeded);
    }
    let (kind, message) = broken(|it| it.structs[0].n_children = i64::MAX);
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert!(message.contains("more than 262144 structs"), "{message}");
}

#[test]
fn the_deepest_tree_is_64_levels_below_its_root() {
    let deep = |levels: usize| {
        let mut tree = Tree::new();
        for level in 0..levels {
            tree.add(0);
            let number = tree.structs.len() - 1;
            tree.link(if level == 0 { 0 } else { number - 1 }, &[number]);
        }
        tree.structure()
    };
    assert_eq!(deep(64).unwrap().depth, 64);
    assert_eq!(deep(65).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

// Requirement: ABI-2, ARR-7
#[test]
fn any_device_will_do_and_an_event_only_where_there_are_events() {
    let mut event = 0_u64;
    let mut with = |device_type: i32, has_event: bool| {
        let event = if has_event { (&raw mut event).cast() } else { null_mut() };
        let mut tree = Tree::new();
        let mut base =
            ArrowDeviceArray { device_type, sync_event: event, ..ArrowDeviceArray::empty() };
        base.array = unsafe { std::ptr::read(tree.structs[0].0) };
        let structure =
            unsafe { validate::structure(&base) }.map(|_| ()).map_err(|error| error.kind());
        let layout = unsafe { validate::layout(&base, &schema()) }.map_err(|error| error.kind());
        assert_eq!(structure, layout);
        tree.structure().unwrap();
        structure
    };
    for device in [DeviceType::CUDA.0, 4711, -3] {
        assert_eq!(with(device, true), Ok(()));
        assert_eq!(with(device, false), Ok(()));
    }
    for device in [DeviceType::CPU.0, DeviceType::WEBGPU.0] {
        assert_eq!(with(device, false), Ok(()));
        assert_eq!(with(device, true), Err(ErrorKind::Malformed));
    }
}

// Requirement: SYS-2, ARR-17
#[test]
fn layout_sees_what_does_not_fit_the_type_and_takes_nothing() {
    let layout = |breaks: fn(&mut Tree)| {
        let mut tree = Tree::new();
        breaks(&mut tree);
        let error = tree.check(|base| unsafe { validate::layout(base, &schema()) }).unwrap_err();
        assert_eq!(error.operation(), Some("validate"));
        (error.kind(), error.place().map_or(String::new(), ToString::to_string))
    };
    let at = |kind, place: &str| (kind, place.to_owned());
    use ErrorKind::{Malformed, Released, SchemaMismatch};
    assert_eq!(layout(|it| it.structs[1].n_buffers = 1), at(SchemaMismatch, "root.child[0]"));
    assert_eq!(
        layout(|it| it.structs[2].dictionary = null_mut()),
        at(SchemaMismatch, "root.child[1]")
    );
    assert_eq!(layout(|it| it.structs[0].n_children = 1), at(SchemaMismatch, "root"));
    assert_eq!(layout(|it| it.structs[2].length = 2), at(Malformed, "root.child[1]"));
    assert_eq!(layout(|it| it.structs[1].length = -1), at(Malformed, "root.child[0]"));
    assert_eq!(layout(|it| it.structs[0].release = None), at(Released, ""));
    let no_values = |it: &mut Tree| unsafe { it.structs[1].buffers.add(1).write(null()) };
    assert_eq!(layout(no_values), at(Malformed, "root.child[0]"));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
}

#[test]
fn the_structs_of_a_type_are_checked_too() {
    let mut c_schema = ArrowSchema::empty();
    schema().export(&mut c_schema).unwrap();
    let summary = unsafe { validate::schema_structure(&c_schema) }.unwrap();
    assert_eq!((summary.nodes, summary.buffers, summary.depth), (4, 0, 2));
    let child = unsafe { &mut **c_schema.children };
    let format = std::mem::replace(&mut child.format, null());
    let error = unsafe { validate::schema_structure(&c_schema) }.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Malformed, "the format is null"));
    assert_eq!(error.place().unwrap().to_string(), "root.child[0]");
    unsafe { (**c_schema.children).format = format };
    assert_eq!(unsafe { Schema::import(&mut c_schema) }.unwrap(), schema());
    let error = unsafe { validate::schema_structure(&c_schema) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Released);
}
