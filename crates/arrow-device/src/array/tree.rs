//! What an array is made of: one shared tree of nodes, imported or built here.
//!
//! An [`Array`](super::Array) is a share of a tree, the number of a node, and a window on that
//! node. The nodes of a tree have the numbers of its schema's nodes, so one number leads to a node
//! and to the node's type. The producer's own structs are the table of nodes of an imported tree
//! ([`Structs`]). A tree that was put together here has a table of its own ([`Built`]).

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, Weak};

use super::Array;
use super::known_valid::KnownValid;
use super::node::{ArrayNode, DATA, Nodes, Tables, buffers_of};
use super::origin::data_extent;
use super::readiness::{Pending, ReadyWhen};
use super::structs::Structs;
use crate::device::account::{self, CountedBytes, Direction};
use crate::device::deferred::LastQueueUses;
use crate::device::driver::{Raw, Watched};
use crate::device::watch::WatchedRelease;
use crate::device::{Arrival, BytesOwner, ClaimedMemory, Moment};
use crate::numbered::numbered;
use crate::pool::per_fork::{Locks, PerFork};
use crate::pool::shared::Shared;
use crate::process::MadeIn;
use crate::schema::Schema;
use crate::{Device, DeviceId, DeviceType, Event, Extent, Queue};

/// A tree: nodes, when they are ready, and whatever keeps them alive.
pub(crate) struct Tree {
    pub(crate) schema: Schema,
    pub(crate) device: DeviceId,
    pub(crate) ready: ReadyWhen,
    /// The arrival of the memory. Its moment is unknown where parts of the memory came at different
    /// moments, and a device was opened or closed by the id between them.
    arrival: Arrival,
    /// Whether the tree was put together of other trees, here or before it was exported and came
    /// back.
    is_of_parts: bool,
    /// Whether the producer said that the data is complete. An event that is missing then stands
    /// for no work.
    pub(super) is_complete: bool,
    pub(super) storage: ManuallyDrop<Storage>,
    /// What validation found of the data.
    pub(crate) known_valid: KnownValid,
    /// What is noted after the tree was made. Most trees are used without any note.
    pub(super) records: PerFork<TreeRecords>,
}

/// What is noted of a tree in the course of its life.
#[derive(Default)]
pub(super) struct TreeRecords {
    /// The numbers of queues that wait for the data already.
    pub(super) waited: Mutex<Vec<u64>>,
    /// The last use on each queue.
    pub(super) uses: Mutex<LastQueueUses>,
    /// The bytes that are counted as imported, where the device's bytes are counted.
    pub(super) counted: Mutex<Option<CountedBytes>>,
    /// What drivers that watch are told when the tree is released.
    pub(super) watched: Mutex<Vec<WatchedRelease>>,
    /// An event behind the work that makes the data, where only the order of a queue says when that
    /// work ends.
    pub(super) in_order: Mutex<Option<Event>>,
    /// The owner of buffers that were made of this tree, while there are such buffers.
    pub(super) as_owner: Mutex<Weak<Shared<Tree>>>,
}

impl Locks for TreeRecords {
    fn are_free(&self) -> bool {
        let Self { waited, uses, counted, watched, in_order, as_owner } = self;
        let of_uses = waited.are_free() && uses.are_free() && in_order.are_free();
        of_uses && counted.are_free() && watched.are_free() && as_owner.are_free()
    }
}

/// What keeps a tree's data alive.
pub(crate) enum Storage {
    /// The structs of a producer, which are released once, when they are dropped.
    Foreign(Structs),
    /// The owners of buffers, and the arrays that the tree was put together of.
    Built(Built),
}

/// What an array that was put together here holds.
pub(crate) struct Built {
    pub(crate) nodes: Nodes,
    /// The owners of all buffers that the arrays of `below` do not keep.
    pub(crate) owners: Box<[BytesOwner]>,
    pub(crate) below: Below,
    /// Whether a part of the data came without an event, and no event of this tree stands for the
    /// work in whose order that part may be ready: the device of the part was not open.
    pub(crate) came_without_event: bool,
    pub(crate) tables: Tables,
}

/// The arrays that a tree was put together of, with the numbers of the nodes that their roots
/// became.
#[derive(Default)]
pub(crate) struct Below {
    arrays: Box<[Array]>,
    /// The number of the node that the root of each array became, in ascending order. Empty where
    /// the arrays are those right below the root, the dictionary last, which have the numbers from
    /// 1 on.
    numbers: Box<[u32]>,
}

impl Below {
    /// The arrays right below the root.
    pub(super) fn in_order(arrays: Box<[Array]>) -> Self {
        Self { arrays, numbers: Box::default() }
    }

    /// Arrays that became the nodes with these numbers.
    pub(super) fn numbered(arrays: Vec<Array>, numbers: Vec<u32>) -> Self {
        let mut all: Vec<(u32, Array)> = numbers.into_iter().zip(arrays).collect();
        all.sort_by_key(|(number, _)| *number);
        let (numbers, arrays): (Vec<u32>, Vec<Array>) = all.into_iter().unzip();
        Self { arrays: arrays.into(), numbers: numbers.into() }
    }

    pub(crate) fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// The array that a node came from, and the number of the node that the root of that array
    /// became.
    pub(super) fn source_of(&self, schema: &Schema, node: u32) -> Option<(u32, &Array)> {
        if self.arrays.is_empty() {
            return None;
        }
        let mut top = node;
        while top > 0 {
            let index = match &*self.numbers {
                [] if schema.node(top).parent == 0 => (top as usize).checked_sub(1),
                [] => None,
                numbers => numbers.binary_search(&top).ok(),
            };
            match index {
                Some(index) => return self.arrays.get(index).map(|array| (top, array)),
                None => top = schema.node(top).parent,
            }
        }
        None
    }
}

// SAFETY: the raw pointers in here are structs and tables in host memory that nobody writes to
// before the release, and device addresses. The specification lets a struct be used and released on
// any thread: `import`'s contract repeats it, and everything built here is `Send + Sync`.
unsafe impl Send for Tree {}
// SAFETY: the raw pointers in here are structs and tables in host memory that nobody writes to
// before the release (UNS-3), and device addresses; what changes is behind locks.
unsafe impl Sync for Tree {}
// SAFETY: a storage is taken out of its tree to be released later, on whatever thread comes by: a
// foreign struct can be released on any thread (UNS-6), and everything built here is `Send + Sync`.
unsafe impl Send for Storage {}

/// Where the memory of a tree comes from. An exported tree keeps its origin for whoever imports it
/// again.
#[derive(Clone, Copy)]
pub(crate) struct MemoryOrigin {
    /// The device that the memory is on. Memory that comes back as memory of another device counts
    /// as new there.
    pub(super) device: DeviceId,
    arrival: Arrival,
    is_of_parts: bool,
}

impl MemoryOrigin {
    /// The origin of memory that comes now.
    #[inline(always)]
    pub(super) fn new_on(device: DeviceId) -> Self {
        let arrival = Arrival { process: MadeIn::with_memory_on(device), moment: Moment::now() };
        Self { device, arrival, is_of_parts: false }
    }

    /// This origin, with an unknown moment.
    pub(super) fn without_moment(self) -> Self {
        let arrival = Arrival { moment: Moment::UNKNOWN, ..self.arrival };
        Self { arrival, ..self }
    }
}

impl Tree {
    #[inline(always)]
    pub(crate) fn new(
        schema: Schema,
        device: DeviceId,
        ready: ReadyWhen,
        storage: Storage,
    ) -> Self {
        Self::of_origin(schema, MemoryOrigin::new_on(device), ready, storage)
    }

    /// [`new`](Self::new), of memory that has this origin.
    #[inline(always)]
    pub(super) fn of_origin(
        schema: Schema,
        origin: MemoryOrigin,
        ready: ReadyWhen,
        storage: Storage,
    ) -> Self {
        let MemoryOrigin { device, arrival, is_of_parts } = origin;
        let (storage, records) = (ManuallyDrop::new(storage), PerFork::new());
        let (is_complete, known_valid) = (false, KnownValid::nothing());
        Self {
            schema,
            device,
            ready,
            arrival,
            is_of_parts,
            is_complete,
            storage,
            known_valid,
            records,
        }
    }

    /// Where the memory of the tree comes from, for whoever imports the tree's structs.
    #[inline]
    pub(super) fn origin(&self) -> MemoryOrigin {
        let &Self { device, arrival, is_of_parts, .. } = self;
        MemoryOrigin { device, arrival, is_of_parts }
    }

    /// Records that the data is older than the tree, and perhaps came into another process.
    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    /// Notes that the producer said that the data is complete.
    #[inline]
    pub(crate) fn set_complete(&mut self) {
        self.is_complete = true;
    }

    #[inline]
    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// When the memory came.
    pub(super) fn came(&self) -> Moment {
        self.arrival.moment
    }

    /// Says when the memory came, and whether the tree was put together of others.
    pub(super) fn set_parts(&mut self, came: Moment, is_of_parts: bool) {
        (self.arrival.moment, self.is_of_parts) = (came, is_of_parts);
    }

    /// Whether the data lies on a device that is not there: this is a child of `fork`, and the tree
    /// was made before.
    #[inline(always)]
    pub(super) fn is_of_the_parents_device(&self) -> bool {
        self.device.device_type != DeviceType::CPU && !self.arrival.process.is_this()
    }

    /// A tree that was put together here.
    pub(crate) fn built(schema: Schema, device: DeviceId, ready: ReadyWhen, built: Built) -> Self {
        let tree = Self::new(schema, device, ready, Storage::Built(built));
        if account::any_counts() {
            tree.tell_of_making(Watched::Built);
        }
        tree
    }

    /// A share of the tree as the owner of a buffer. All buffers that are made of the tree share
    /// one owner as long as any of them exists. The common owner shows that the buffers belong to
    /// one allocation, but for devices that need an allocation for each buffer.
    pub(crate) fn owner(tree: &Shared<Self>) -> BytesOwner {
        let mut known = tree.records.lock(|records| &records.as_owner);
        if let Some(owner) = known.upgrade() {
            return owner;
        }
        let owner = Arc::new(tree.clone());
        *known = Arc::downgrade(&owner);
        owner
    }

    /// Adds the tree's bytes to the account of its device, where the device's bytes are counted.
    #[inline]
    pub(crate) fn count(&self, direction: Direction) -> Option<CountedBytes> {
        if account::any_counts() { self.count_for_device(direction) } else { None }
    }

    #[inline(never)]
    fn count_for_device(&self, direction: Direction) -> Option<CountedBytes> {
        if matches!(direction, Direction::Exported) {
            self.tell_of_export();
        }
        let device = crate::Device::find(self.device)?;
        device.account().count(direction, || self.known_bytes())
    }

    /// Counts the tree's bytes as imported until the release, where the device's bytes are counted.
    #[inline(always)]
    pub(crate) fn count_as_imported(&self) {
        if account::any_counts() {
            let counted = self.count(Direction::Imported);
            *self.records.lock(|records| &records.counted) = counted;
            self.tell_of_making(Watched::Imported);
        }
    }

    /// The length of all buffers together, as far as it is known without asking a device.
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

    /// The node with this number.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> ArrayNode {
        match self.storage() {
            Storage::Foreign(structs) => structs.node(number, self.schema.checks()),
            Storage::Built(Built { nodes, .. }) => *numbered(nodes.as_slice().get(number as usize)),
        }
    }

    /// A node's table of buffers, and the number of buffers.
    #[inline(always)]
    pub(crate) fn table(&self, number: u32) -> (*const *const c_void, u32) {
        match self.storage() {
            Storage::Foreign(structs) => {
                let source = structs.get(number);
                let nulls = numbered(self.schema.checks().get(number as usize)).nulls;
                (source.buffers.cast_const(), buffers_of(source.n_buffers, nulls))
            }
            Storage::Built(Built { nodes, .. }) => {
                let node = numbered(nodes.as_slice().get(number as usize));
                (node.buffers, node.n_buffers)
            }
        }
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The length of a buffer, where it was given when the tree was made, or when the tree was made
    /// that was exported and came back. `node` has this number.
    #[inline]
    pub(crate) fn given_extent(
        &self,
        number: u32,
        node: &ArrayNode,
        index: usize,
    ) -> Option<Extent> {
        match self.storage() {
            Storage::Built(Built { tables, .. }) => tables.extent_of(node, index),
            Storage::Foreign(structs) if index == DATA => data_extent(structs, number),
            Storage::Foreign(_) => None,
        }
    }

    /// A buffer of the tree, by which its device can be told from others, where several devices are
    /// open by one id. `None` where no two devices have one id, and for a tree without memory.
    pub(crate) fn telling_memory(&self) -> Option<ClaimedMemory> {
        if Device::ids_are_ambiguous() { self.any_memory() } else { None }
    }

    /// The open device that has the data. `None` where no device is open by the id, and where
    /// several runtimes are and the data does not tell which one has it.
    pub(crate) fn open_device(&self) -> Option<Device> {
        if !Device::ids_are_ambiguous() {
            let found = Device::find(self.device);
            // A second runtime may have been opened by the id just now, and been found instead.
            if !Device::ids_are_ambiguous() {
                return found;
            }
        }
        match self.telling_memory() {
            Some(_) if self.is_mixed() => None,
            // SAFETY: the memory is a `buffers[i]` of this tree, which keeps it.
            Some(claimed) => unsafe { Device::find_holding(self.device, claimed) },
            None if self.has_telling_event() => Device::find_sending(self.device, self.came()),
            None => Device::find(self.device),
        }
    }

    /// Whether the tree has memory, or the event of a producer, by which its runtime can be told.
    pub(super) fn tells_runtime(&self) -> bool {
        self.telling_memory().is_some() || self.has_telling_event()
    }

    /// Whether only the event of a producer, and the moment at which it came, can tell the runtime
    /// of the tree. There is no memory, and several runtimes were open by the id.
    pub(crate) fn has_telling_event(&self) -> bool {
        let is_foreign = |pending: &Pending| pending.event().is_none();
        Device::ids_are_ambiguous()
            && self.ready.pending().iter().any(is_foreign)
            && Device::has_several_runtimes(self.device)
            && self.any_memory().is_none()
    }

    /// The first buffer of the tree that is not null and not host memory.
    pub(crate) fn any_memory(&self) -> Option<ClaimedMemory> {
        if self.device.device_type == DeviceType::CPU { None } else { self.memories().next() }
    }

    /// All buffers that are not null, node by node.
    fn memories(&self) -> impl Iterator<Item = ClaimedMemory> {
        let of_node = |(number, node): (usize, ArrayNode)| {
            // The sizes of views come behind these buffers, and lie on the host.
            let fixed = self.schema.node(number as u32).layout.buffers().len();
            (0..fixed).map(move |index| node.buffer(index)).filter(|buffer| !buffer.is_null())
        };
        self.nodes().enumerate().flat_map(of_node).map(|memory| {
            let memory = Raw::from_ptr(memory.cast_mut().cast());
            ClaimedMemory { memory, came: self.came() }
        })
    }

    /// Whether a queue's device has the data. The answer is no for data on another device, and for
    /// data in the memory of another runtime with the same device id.
    pub(crate) fn is_with(&self, queue: &Queue) -> bool {
        let holds = |claimed| {
            // SAFETY: this tree keeps the memory.
            unsafe { queue.device().holds(claimed) }
        };
        self.device == queue.device().id()
            && self.telling_memory().is_none_or(holds)
            && !self.is_mixed()
    }

    /// Whether the tree was put together of memory of several runtimes. Such a tree can come about
    /// while only one of the runtimes is open by the id, because nothing tells them apart then.
    pub(super) fn is_mixed(&self) -> bool {
        self.is_of_parts && Device::ids_are_ambiguous() && self.has_several_holders()
    }

    #[cold]
    fn has_several_holders(&self) -> bool {
        if !Device::has_several_runtimes(self.device) {
            return false;
        }
        let mut holders = self.memories().map(|claimed| {
            // SAFETY: the memory is a `buffers[i]` of this tree, which keeps it.
            let holder = unsafe { Device::find_holding(self.device, claimed) };
            holder.map(|holder| holder.driver().runtime())
        });
        let first = holders.next();
        first.is_some_and(|first| holders.any(|other| other != first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbered::tests::is_a_bug_of_ours;
    use crate::{Batch, DataType};

    // Requirement: SAF-34
    #[test]
    fn a_number_that_names_no_node_of_a_tree_is_a_bug() {
        let words = Array::from_values(DataType::Int64, [Some(1_i64), None]).unwrap();
        let batch = Batch::from_columns([("a", words.clone()), ("b", words)]).unwrap();
        let built = batch.as_array().clone();
        let mut c_array = crate::abi::ArrowDeviceArray::empty();
        built.export(&mut c_array).unwrap();
        // SAFETY: the struct was filled by `export`.
        let imported =
            unsafe { Array::import(&raw mut c_array, &built.schema().unwrap()) }.unwrap();
        for array in [built, imported] {
            let tree: &Tree = array.tree();
            let count = tree.node_count() as u32;
            assert_eq!((count, tree.node(count - 1).window.length), (3, 2));
            assert_eq!(tree.table(count - 1).1, 2);
            for number in [count, u32::MAX] {
                assert!(is_a_bug_of_ours(|| tree.node(number)), "node {number}");
                assert!(is_a_bug_of_ours(|| tree.table(number)), "table {number}");
                assert!(is_a_bug_of_ours(|| array.at_number(number)), "array {number}");
            }
        }
    }
}
