//! What an array is made of: one shared tree of nodes, imported or built here.
//!
//! A tree's nodes are numbered as its schema's are, so a number leads to both. Of an imported tree the producer's own structs
//! are the table of nodes; of one that was put together here it is a table of ours. An [`Array`](super::Array) is a tree, the
//! number of a node, and a window on it.

use std::alloc::Layout;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::{Array, Window};
use crate::abi::ArrowArray;
use crate::device::account::{self, CountedBytes, Direction};
use crate::device::deferred::{self, Use};
use crate::device::driver::Raw;
use crate::device::{BytesOwner, Memory};
use crate::pool::list::List;
use crate::pool::shared::Shared;
use crate::schema::{Check, Nullability, Schema};
use crate::sync::lock;
use crate::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Extent, Queue, Result};

/// One node: what is known of it without a look at its data.
#[derive(Clone, Copy)]
pub(crate) struct ArrayNode {
    pub(crate) window: Window,
    /// `n_buffers` pointers.
    pub(crate) buffers: *const *const c_void,
    pub(crate) n_buffers: u32,
    /// Where in [`Tables::extents`] those of its buffers begin.
    pub(crate) extents: u32,
}

impl ArrayNode {
    /// The lengths of the buffers were not given.
    pub(crate) const NO_EXTENTS: u32 = u32::MAX;

    /// A node without anything.
    pub(crate) const EMPTY: Self = Self {
        window: Window { length: 0, offset: 0, null_count: 0 },
        buffers: std::ptr::null(),
        n_buffers: 0,
        extents: Self::NO_EXTENTS,
    };

    /// What a struct says that was seen to keep to its rule.
    #[inline(always)]
    fn of(source: &ArrowArray, nulls: Nullability) -> Self {
        let ArrowArray { length, offset, null_count, n_buffers, buffers, .. } = *source;
        let n_buffers = n_buffers as u32;
        let extents = Self::NO_EXTENTS;
        let node =
            Self { window: Window { offset, length, null_count }, buffers, n_buffers, extents };
        let null_count = match nulls {
            // Without a bitmap nothing is null, counted or not.
            Nullability::InBitmap if null_count != 0 && node.buffer(0).is_null() => 0,
            Nullability::InBitmap => null_count,
            Nullability::All => length,
            Nullability::None => 0,
        };
        Self { window: Window { offset, length, null_count }, ..node }
    }

    /// A buffer's address or handle; null where there is none.
    #[inline]
    pub(crate) fn buffer(&self, index: usize) -> *const c_void {
        if index >= self.n_buffers as usize {
            return std::ptr::null();
        }
        // SAFETY: whoever made the node vouches for `n_buffers` entries: import by its contract (the C data interface says
        // "the number of pointers is given by `n_buffers`"), construction by its own table.
        unsafe { self.buffers.wrapping_add(index).read() }
    }
}

/// The nodes of a tree that was put together here. A single one needs no table of its own.
pub(crate) enum Nodes {
    One([ArrayNode; 1]),
    Many(Box<[ArrayNode]>),
}

impl Nodes {
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[ArrayNode] {
        match self {
            Self::One(node) => node,
            Self::Many(nodes) => nodes,
        }
    }
}

impl From<Vec<ArrayNode>> for Nodes {
    fn from(nodes: Vec<ArrayNode>) -> Self {
        match <[ArrayNode; 1]>::try_from(nodes) {
            Ok(node) => Self::One(node),
            Err(nodes) => Self::Many(nodes.into()),
        }
    }
}

/// When data may be used.
pub(crate) enum ReadyWhen {
    Now,
    After(Pending),
    /// Columns with different events were put together.
    AfterAll(Box<[Pending]>),
}

/// Something to wait for.
#[derive(Clone)]
pub(crate) enum Pending {
    Event(Event),
    /// The `sync_event` of an array that somebody else made and that the tree keeps alive.
    Foreign(NonNull<c_void>),
}

impl Pending {
    pub(crate) fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Foreign(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn into_event(self) -> Option<Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Foreign(_) => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Event(one), Self::Event(other)) => one.is_same(other),
            (Self::Foreign(one), Self::Foreign(other)) => one == other,
            _ => false,
        }
    }
}

impl ReadyWhen {
    /// What the `sync_event` says of an array that somebody else made and that the tree keeps alive.
    #[inline(always)]
    pub(crate) fn foreign(sync_event: *mut c_void) -> Self {
        match NonNull::new(sync_event) {
            None => Self::Now,
            Some(event) => Self::After(Pending::Foreign(event)),
        }
    }

    pub(crate) fn pending(&self) -> &[Pending] {
        match self {
            Self::Now => &[],
            Self::After(one) => std::slice::from_ref(one),
            Self::AfterAll(all) => all,
        }
    }

    /// Both.
    pub(crate) fn join(all: impl IntoIterator<Item = Pending>) -> Self {
        let mut distinct: Vec<Pending> = Vec::new();
        for pending in all {
            if !distinct.iter().any(|known| known.is_same(&pending)) {
                distinct.push(pending);
            }
        }
        match (distinct.pop(), distinct.is_empty()) {
            (None, _) => Self::Now,
            (Some(only), true) => Self::After(only),
            (Some(last), false) => {
                distinct.push(last);
                Self::AfterAll(distinct.into())
            }
        }
    }
}

/// A tree: nodes, when they are ready, and whatever keeps them alive.
pub(crate) struct Tree {
    pub(crate) schema: Schema,
    pub(crate) device: DeviceId,
    pub(crate) ready: ReadyWhen,
    storage: ManuallyDrop<Storage>,
    /// What is noted later. Most trees pass through without.
    notes: OnceLock<Shared<Notes>>,
}

/// What is noted of a tree in the course of its life.
#[derive(Default)]
struct Notes {
    /// Queues that wait for the data already.
    waited: Mutex<Vec<u64>>,
    /// The last use on each queue.
    uses: Mutex<Vec<Use>>,
    /// Counted as imported, where somebody counts.
    counted: Mutex<Option<CountedBytes>>,
    /// What keeps buffers alive that were made of this tree, while there are any.
    as_owner: Mutex<Weak<Shared<Tree>>>,
}

/// What keeps a tree's data alive.
pub(crate) enum Storage {
    /// Structs of a producer's. Released once, when dropped.
    Foreign(Structs),
    /// Buffers of the root, and other arrays.
    Built(Built),
}

/// The structs of an imported tree, all of which keep to their rules. They are the consumer's from the import to the release,
/// so nobody writes to them: `import`'s caller promises it.
pub(crate) struct Structs {
    base: ForeignArray,
    below: StructsBelow,
}

/// Where the structs below the base are.
pub(crate) enum StructsBelow {
    /// They are its children and no more, so its own table leads to all of them, in the order of their numbers.
    Children,
    /// A table of what lies deeper, too.
    Table(List<*const ArrowArray>),
}

impl Structs {
    /// # Safety
    /// The tree was checked: the base keeps to the rule of the schema's root, what `below` leads to are the structs of the
    /// nodes from 1 on, and each keeps to its rule. They stay until the base is released.
    pub(crate) unsafe fn new(base: ForeignArray, below: StructsBelow) -> Self {
        Self { base, below }
    }

    pub(crate) fn base(&self) -> &ArrowArray {
        &self.base.0
    }

    /// Which elements a base has that keeps to its rule.
    #[inline(always)]
    pub(crate) fn root(base: &ArrowArray, checks: &[Check]) -> Window {
        let nulls = checks.first().map_or(Nullability::InBitmap, |check| check.nulls);
        ArrayNode::of(base, nulls).window
    }

    /// The structs of the nodes from 1 on.
    #[inline(always)]
    pub(crate) fn below(&self) -> &[*const ArrowArray] {
        let ArrowArray { children, n_children, .. } = *self.base();
        match &self.below {
            StructsBelow::Table(table) => table,
            StructsBelow::Children if n_children == 0 => &[],
            // SAFETY: `new`'s caller saw that the base has a table of so many children, which nobody writes to.
            StructsBelow::Children => unsafe {
                std::slice::from_raw_parts(children.cast_const().cast(), n_children as usize)
            },
        }
    }

    /// A node; nothing for a number that is none. The checks are those of the whole schema.
    #[inline(always)]
    pub(crate) fn node(&self, number: u32, checks: &[Check]) -> Option<ArrayNode> {
        Some(ArrayNode::of(self.get(number)?, checks.get(number as usize)?.nulls))
    }

    /// Some nodes below the base.
    #[inline(always)]
    pub(crate) fn nodes<'a>(
        &'a self,
        numbers: Range<u32>,
        checks: &'a [Check],
    ) -> impl ExactSizeIterator<Item = ArrayNode> + 'a {
        let (start, end) = (numbers.start as usize, numbers.end as usize);
        let structs =
            self.below().get(start.wrapping_sub(1)..end.wrapping_sub(1)).unwrap_or_default();
        let checks = checks.get(start..end).unwrap_or_default();
        structs.iter().zip(checks).map(|(source, check)| {
            // SAFETY: `new`'s caller saw a struct there, and it stays as long as the base.
            ArrayNode::of(unsafe { &**source }, check.nulls)
        })
    }

    /// The struct of a node.
    #[inline(always)]
    fn get(&self, number: u32) -> Option<&ArrowArray> {
        match (number as usize).checked_sub(1) {
            None => Some(self.base()),
            // SAFETY: `new`'s caller saw a struct there, and it stays as long as the base.
            Some(index) => self.below().get(index).map(|struct_| unsafe { &**struct_ }),
        }
    }
}

/// What an array that was put together here holds.
pub(crate) struct Built {
    pub(crate) nodes: Nodes,
    /// The owners of the root's buffers.
    pub(crate) _buffers: Box<[BytesOwner]>,
    /// The arrays right below the root, the dictionary as the last one.
    pub(crate) below: Box<[Array]>,
    pub(crate) tables: Tables,
}

/// Buffer tables of nodes that were made here, and the lengths of the buffers.
pub(crate) struct Tables {
    pub(crate) extents: Box<[Extent]>,
    /// Never read through this: it keeps the tables that nodes point to.
    pub(crate) _pointers: Arc<[BufferPointer]>,
}

/// An entry of a buffer table.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct BufferPointer(pub(crate) *const c_void);

// SAFETY: an address on some device, that only whoever names a queue of it uses.
unsafe impl Send for BufferPointer {}
// SAFETY: as above.
unsafe impl Sync for BufferPointer {}

// SAFETY: the raw pointers in here are structs and tables in host memory that nobody writes to before the release, and
// device addresses. The specification lets a struct be used and released on any thread: `import`'s contract repeats it,
// and everything built here is `Send + Sync`.
unsafe impl Send for Tree {}
// SAFETY: as above; what changes is behind locks.
unsafe impl Sync for Tree {}
// SAFETY: as above; a storage is taken out of its tree to be released later, on whatever thread comes by.
unsafe impl Send for Storage {}

impl Tree {
    #[inline(always)]
    pub(crate) fn new(
        schema: Schema,
        device: DeviceId,
        ready: ReadyWhen,
        storage: Storage,
    ) -> Self {
        let storage = ManuallyDrop::new(storage);
        Self { schema, device, ready, storage, notes: OnceLock::new() }
    }

    fn notes(&self) -> &Notes {
        let new = || {
            let notes = Shared::new(Notes::default());
            // As the allocator does where nobody can be told.
            notes.unwrap_or_else(|_| std::alloc::handle_alloc_error(Layout::new::<Notes>()))
        };
        self.notes.get_or_init(new)
    }

    /// A tree that was put together here.
    pub(crate) fn built(schema: Schema, device: DeviceId, ready: ReadyWhen, built: Built) -> Self {
        Self::new(schema, device, ready, Storage::Built(built))
    }

    /// A share of the tree as the owner of a buffer: the same one for all buffers at a time, which tells that they are of one
    /// allocation.
    pub(crate) fn owner(tree: &Shared<Self>) -> BytesOwner {
        let mut known = lock(&tree.notes().as_owner);
        if let Some(owner) = known.upgrade() {
            return owner;
        }
        let owner = Arc::new(tree.clone());
        *known = Arc::downgrade(&owner);
        owner
    }

    /// Counts it for its device, where somebody counts.
    #[inline]
    pub(crate) fn count(&self, direction: Direction) -> Option<CountedBytes> {
        if account::any_counts() { self.count_for_device(direction) } else { None }
    }

    #[inline(never)]
    fn count_for_device(&self, direction: Direction) -> Option<CountedBytes> {
        let device = crate::Device::find(self.device)?;
        device.account().count(direction, || self.known_bytes())
    }

    /// Counts it as imported until its release, where somebody counts.
    #[inline(always)]
    pub(crate) fn count_as_imported(&self) {
        if account::any_counts() {
            *lock(&self.notes().counted) = self.count(Direction::Imported);
        }
    }

    /// How many bytes the buffers have together, as far as nobody has to be asked.
    fn known_bytes(&self) -> u64 {
        let of_node = |(number, node): (u32, ArrayNode)| -> u64 {
            let buffers = 0..node.n_buffers as usize;
            buffers.map(|index| self.extent(number, index, node.window.end()).at_least()).sum()
        };
        (0..).zip(self.nodes()).map(of_node).sum()
    }

    /// How many nodes there are: as many as the schema has.
    #[inline]
    pub(crate) fn node_count(&self) -> usize {
        self.schema.checks().len()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = ArrayNode> {
        (0..self.node_count() as u32).map(|number| self.node(number))
    }

    /// A node; an empty one for a number that is none.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> ArrayNode {
        match self.storage() {
            Storage::Foreign(structs) => structs.node(number, self.schema.checks()),
            Storage::Built(Built { nodes, .. }) => nodes.as_slice().get(number as usize).copied(),
        }
        .unwrap_or(ArrayNode::EMPTY)
    }

    /// A node's table of buffers, and how many they are.
    #[inline(always)]
    pub(crate) fn table(&self, number: u32) -> (*const *const c_void, u32) {
        match self.storage() {
            Storage::Foreign(structs) => structs
                .get(number)
                .map(|source| (source.buffers.cast_const(), source.n_buffers as u32)),
            Storage::Built(Built { nodes, .. }) => {
                nodes.as_slice().get(number as usize).map(|node| (node.buffers, node.n_buffers))
            }
        }
        .unwrap_or((std::ptr::null(), 0))
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The length of a buffer, where it was given when the tree was made.
    #[inline]
    pub(crate) fn given_extent(&self, node: &ArrayNode, index: usize) -> Option<Extent> {
        let Storage::Built(Built { tables, .. }) = self.storage() else { return None };
        if node.extents == ArrayNode::NO_EXTENTS || index >= node.n_buffers as usize {
            return None;
        }
        tables.extents.get(node.extents as usize + index).copied()
    }

    /// Memory that tells which of several devices with its id this is, where one has to ask.
    pub(crate) fn telling_memory(&self) -> Option<Raw<Memory>> {
        if !Device::ids_are_ambiguous() || self.device.device_type == DeviceType::CPU {
            return None;
        }
        let of_node = |(number, node): (usize, ArrayNode)| {
            // The sizes of views, which come behind these, lie on the host.
            let fixed = self.schema.node(number as u32).layout.buffers().len();
            (0..fixed).map(|index| node.buffer(index)).find(|buffer| !buffer.is_null())
        };
        let memory = self.nodes().enumerate().find_map(of_node)?;
        Some(Raw::from_ptr(memory.cast_mut().cast()))
    }

    /// Whether a queue's device has the data: not where the data is on another device, or in another runtime's memory on the
    /// same one.
    pub(crate) fn is_with(&self, queue: &Queue) -> bool {
        let holds = |memory| {
            // SAFETY: this tree keeps it.
            unsafe { queue.driver().holds(memory) }
        };
        self.device == queue.device().id() && self.telling_memory().is_none_or(holds)
    }

    /// Makes a queue wait until the data is ready, unless it does already.
    pub(crate) fn order(&self, queue: &Queue) -> Result<()> {
        queue.reaches(self.device)?;
        if self.device == queue.device().id() && !self.is_with(queue) {
            let message =
                "the memory is of another runtime that is open by this id; copy the data first";
            return Err(Error::new(ErrorKind::NotReachable, message).on_device(self.device));
        }
        let pending = self.ready.pending();
        if pending.is_empty() || lock(&self.notes().waited).contains(&queue.number()) {
            return Ok(());
        }
        pending.iter().try_for_each(|pending| self.wait_for(queue, pending))?;
        let mut waited = lock(&self.notes().waited);
        if !waited.contains(&queue.number()) {
            waited.push(queue.number());
        }
        Ok(())
    }

    pub(crate) fn wait_for(&self, queue: &Queue, pending: &Pending) -> Result<()> {
        match pending {
            Pending::Event(event) => queue.wait(event),
            // SAFETY: the pointer is the `sync_event` of an array that `storage` keeps alive, and `order` and `export_on`
            // asked whether the queue reaches its device.
            Pending::Foreign(sync_event) => unsafe { queue.wait_for_foreign(*sync_event) },
        }
    }

    /// Whether no queue was ever told where the data is.
    pub(crate) fn is_unused(&self) -> bool {
        self.notes.get().is_none_or(|notes| lock(&notes.uses).is_empty())
    }

    /// Notes a use, in place of the last one on the same queue.
    pub(crate) fn note_use(&self, used: Use) {
        let mut uses = lock(&self.notes().uses);
        let earlier = match uses.iter_mut().find(|known| known.queue() == used.queue()) {
            Some(known) => Some(std::mem::replace(known, used)),
            None => {
                uses.push(used);
                None
            }
        };
        drop(uses);
        // Its event is destroyed without the lock.
        drop(earlier);
    }
}

impl Drop for Tree {
    #[inline]
    fn drop(&mut self) {
        let is_plain =
            matches!((&self.ready, &*self.storage), (ReadyWhen::Now, _) | (_, Storage::Foreign(_)));
        if is_plain && self.notes.get().is_none() {
            // SAFETY: dropped once, here, and `self` is being dropped.
            unsafe { ManuallyDrop::drop(&mut self.storage) }
            deferred::tick();
        } else {
            self.drop_after_its_uses();
        }
    }
}

impl Tree {
    /// Drops what may still be in use.
    #[inline(never)]
    fn drop_after_its_uses(&mut self) {
        let notes = self.notes.take();
        let mut uses =
            notes.as_ref().map_or_else(Vec::new, |notes| std::mem::take(&mut *lock(&notes.uses)));
        let counted = notes.as_ref().and_then(|notes| lock(&notes.counted).take());
        drop(notes);
        if matches!(*self.storage, Storage::Built(_)) {
            // The work that makes the data may still run. (For an array that was imported this is the producer's to know.)
            uses.extend(
                self.ready.pending().iter().filter_map(Pending::event).cloned().map(Use::before),
            );
        }
        // SAFETY: taken once, here, by the drop of `self`.
        let storage = unsafe { ManuallyDrop::take(&mut self.storage) };
        if uses.is_empty() {
            drop(storage);
            // Counted until the release, which is over.
            drop(counted);
            deferred::tick();
        } else {
            // Counted until the release, which is later.
            deferred::defer((storage, counted), uses);
        }
    }
}

/// A base structure that another party filled and this one owns now.
pub(crate) struct ForeignArray(pub(crate) ArrowArray);

impl Drop for ForeignArray {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the struct was moved here and is not released yet; the specification asks the consumer to "call the
            // base structure's release callback" exactly once, at whatever address the struct is, and `import`'s contract
            // says that the producer's callback can be called on any thread.
            unsafe { release(&raw mut self.0) }
        }
    }
}
