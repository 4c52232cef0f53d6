//! Writes an `ArrowDeviceArray` for a consumer.
//!
//! 1. The struct can show one event. `export` shows the event of the array (`single_pending`), and
//!    `export_on` lets a queue join several events (`joined_pending`).
//! 2. A node without anything below it goes out as one struct (`exported_leaf`). The struct refers
//!    to the tree's own table of buffers, and its `private_data` is a share of the tree.
//! 3. Any other node takes one block of recycled memory, an arena, with the structs of all nodes
//!    below it (`exported_tree`, `ffi/arena.rs`, `ffi/build.rs`). A node without anything below it
//!    takes an arena too where it is a batch, where it shows an event of this library, where
//!    exports are counted (`device/account.rs`), or where it came back and the length of its data
//!    is known (`origin.rs`): the arena keeps the event and the count, and leads to the length.
//! 4. The columns of a record batch go out with exactly the rows of the batch, and the struct
//!    around them without an offset (`BatchRows`).
//!
//! Why this is fast: an export takes at most one block, copies no table of buffers and counts no
//! null. `export` calls no device. The loop over the nodes is compiled once for imported trees and
//! once for built ones, without a branch for the kind of tree at each node.
//!
//! What must stay true: an error leaves the consumer's struct as it was, and each exported struct
//! holds a share of the tree, directly or through its arena, until it is released.

use crate::numbered::numbered;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

use super::export_nodes::{BatchRows, BuiltNodes, ImportedNodes, have_rows_of};
use super::node::{ArrayNode, WITH_DATA};
use super::origin::{FirstTree, RELEASE_CALLBACKS, data_extent};
use super::readiness::{Pending, ReadyWhen};
use super::tree::{Built, MemoryOrigin, Storage, Tree};
use super::{Array, Window};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::convention;
use crate::device::account::{self, CountedBytes, Direction};
use crate::device::driver::{Readiness, SyncEvent};
use crate::ffi::build::{ArenaRoom, as_uninit};
use crate::ffi::node::{CNode, ChildNumbers, Links, TreeOwner, TreeShare, TreeSource};
use crate::pool::shared::Shared;
use crate::schema::Schema;
use crate::trace::told;
use crate::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Queue, Result};

/// How an array that may not be ready is exported.
pub(crate) enum Manner {
    /// With the one event that the array has.
    AsItIs,
    /// With one event, for which this queue joins all events of the array.
    On(Queue),
    /// Without an event, after a wait on the host.
    Settled,
}

impl Array {
    /// Hands the array to a consumer: fills the struct that the consumer allocated.
    ///
    /// The struct is overwritten without being released, `reserved` included. On failure the struct
    /// is left as it was. From then on the data is kept until the consumer calls `release`. By that
    /// call the consumer says that its own work on the data is done.
    ///
    /// No device is called. The event that the array came with or was made with goes out unchanged.
    /// An array that is ready goes out without an event, and so does one that is ready [in the
    /// order](crate::driver::Readiness::QueueOrder) of its device's queue. It is an error if the
    /// array is not ready and the type of device has no events, or if the event is of another
    /// runtime than that of the device, as [`finish_after`](crate::ArrayBuilder::finish_after)
    /// takes. Columns with different events cannot share the one place for an event: use
    /// [`export_on`](Self::export_on) or [`export_settled`](Self::export_settled).
    ///
    /// ```
    /// use arrow_device::abi::ArrowDeviceArray;
    /// use arrow_device::{Array, DataType};
    ///
    /// let buffers = [Some(vec![0b101_u8].into()), Some(vec![1_i64, 0, 3].into())];
    /// let numbers = Array::builder(DataType::Int64)
    ///     .len(3)
    ///     .null_count(1)
    ///     .buffers(buffers)
    ///     .finish_ready()?;
    /// let mut c_array = ArrowDeviceArray::empty();
    /// numbers.export(&mut c_array)?;
    ///
    /// let again = unsafe { Array::import(&mut c_array, &numbers.schema()?) }?;
    /// assert_eq!(again.null_count(), Some(1));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn export(&self, out: &mut ArrowDeviceArray) -> Result<()> {
        self.export_with(self.single_pending()?, || self.tree().clone(), as_uninit(out))
    }

    /// [`export`](Self::export) into memory that may not be initialised.
    ///
    /// # Safety
    /// `out` may be written (UNS-13).
    pub unsafe fn export_to(&self, out: *mut ArrowDeviceArray) -> Result<()> {
        // SAFETY: UNS-13, which the caller promises, and nothing is read there.
        let out = unsafe { &mut *out.cast::<MaybeUninit<ArrowDeviceArray>>() };
        self.export_with(self.single_pending()?, || self.tree().clone(), out)
    }

    /// [`export`](Self::export), with several events joined: the queue waits for each of them and
    /// records one.
    ///
    /// A single event of the device's own runtime goes out unchanged. The queue is not used then,
    /// nor where there is no event. This waits on the host where the type of device has no events
    /// to show, unless the data is ready in the order of the device's one queue; and where the
    /// queue's events are of another kind than those that arrays on the device show.
    pub fn export_on(&self, queue: &Queue, out: &mut ArrowDeviceArray) -> Result<()> {
        self.export_with(self.joined_pending(queue)?, || self.tree().clone(), as_uninit(out))
    }

    /// [`export`](Self::export) without an event, for consumers that are known to ignore events.
    /// Waits on the host until the data is ready.
    pub fn export_settled(&self, out: &mut ArrowDeviceArray) -> Result<()> {
        self.wait()?;
        self.export_with(None, || self.tree().clone(), as_uninit(out))
    }

    /// Hands the array to a consumer that only knows plain `ArrowArray`s, which lie in host memory.
    ///
    /// Such a struct has no event, so this waits on the host until the data is ready. A copy to the
    /// host, for example, may still be on its way.
    pub fn export_host(&self, out: &mut ArrowArray) -> Result<()> {
        self.wait_for_host()?;
        self.fill(None, || self.tree().clone(), as_uninit(out))?;
        Ok(())
    }

    /// [`export`](Self::export) of an array that is not used any more. The consumer gets the
    /// array's own share of the tree, so no reference count changes.
    pub(crate) fn export_away(self, out: &mut MaybeUninit<ArrowDeviceArray>) -> Result<()> {
        let array = ManuallyDrop::new(self);
        // SAFETY: it is not looked at again, and never dropped.
        unsafe { array.export_and_forget(&Manner::AsItIs, out) }
    }

    /// Exports an array that is not used any more, from its place in memory, which saves the move
    /// of the array.
    ///
    /// # Safety
    /// Whatever the outcome, the array is neither used nor dropped after this.
    #[inline(always)]
    pub(crate) unsafe fn export_and_forget(
        &self,
        manner: &Manner,
        out: &mut MaybeUninit<ArrowDeviceArray>,
    ) -> Result<()> {
        // SAFETY: whatever the outcome, the array is neither used nor dropped after this, as the
        // caller promises.
        let share = unsafe { self.share_taken() };
        let pending = match manner {
            Manner::AsItIs => self.single_pending()?,
            Manner::On(queue) => self.joined_pending(queue)?,
            Manner::Settled => {
                self.wait()?;
                None
            }
        };
        self.export_with(pending, || share, out)
    }

    /// [`export_host`](Self::export_host) of an array that is not used any more.
    ///
    /// # Safety
    /// Whatever the outcome, the array is neither used nor dropped after this.
    #[inline(always)]
    pub(crate) unsafe fn export_host_and_forget(
        &self,
        out: &mut MaybeUninit<ArrowArray>,
    ) -> Result<()> {
        // SAFETY: whatever the outcome, the array is neither used nor dropped after this, as the
        // caller promises.
        let share = unsafe { self.share_taken() };
        self.wait_for_host()?;
        self.fill(None, || share, out)?;
        Ok(())
    }

    /// Takes the array's share of its tree out of the array, and drops the other fields.
    ///
    /// # Safety
    /// The array is never dropped, and not used any more when the share is gone.
    #[inline(always)]
    unsafe fn share_taken(&self) -> Shared<Tree> {
        if self.named.is_some() {
            // SAFETY: the array is never dropped, and not used any more when the share is gone, as
            // the caller promises: nobody else drops it, and only the tree, the number and the
            // window are exported.
            drop(unsafe { ptr::read(&raw const self.named) });
        }
        // SAFETY: the array is never dropped, and not used any more when the share is gone, as the
        // caller promises: nobody else drops it.
        unsafe { ptr::read(&raw const self.tree) }
    }

    /// Waits until a struct without an event may go out. An error where the struct's buffers would
    /// not lie in host memory.
    fn wait_for_host(&self) -> Result<()> {
        if self.device().device_type != DeviceType::CPU {
            let message =
                "only host memory travels without the device interface; copy it to the host";
            return Err(Error::new(ErrorKind::Unsupported, message)
                .during("export")
                .on_device(self.device()));
        }
        self.wait()
    }

    fn may_show_events(&self) -> bool {
        convention::may_have_event(self.device().device_type)
    }

    #[inline(always)]
    fn single_pending(&self) -> Result<Option<Pending>> {
        match &self.tree().ready {
            ReadyWhen::Now => Ok(None),
            _ if Device::any_is_in_queue_order() && self.is_ready_in_its_order() => Ok(None),
            _ if self.tree().has_unknown_order() => Err(self.unknown_order()),
            ReadyWhen::After(pending)
                if self.may_show_events() && !self.tree().is_in_queue_order() =>
            {
                Ok(Some(pending.clone()))
            }
            _ => Err(self.no_single_event()),
        }
    }

    /// The one event that stands for all events of the array, which the queue joins where there are
    /// several.
    fn joined_pending(&self, queue: &Queue) -> Result<Option<Pending>> {
        let tree = self.tree();
        match &tree.ready {
            ReadyWhen::Now => return Ok(None),
            _ if Device::any_is_in_queue_order() && self.is_ready_in_its_order() => {
                return Ok(None);
            }
            _ if !self.may_show_events() => {}
            _ if tree.has_unknown_order() => return Err(self.unknown_order()),
            ReadyWhen::After(pending) if !tree.is_in_queue_order() => {
                return Ok(Some(pending.clone()));
            }
            _ => {
                tree.require_reach(queue)?;
                let of = queue.device();
                let shows_its_event = of.properties().readiness == Readiness::Event
                    && convention::have_same_events(of.id().device_type, tree.device.device_type);
                if shows_its_event {
                    let joined = tree.joined(queue, &tree.pending()?)?;
                    return Ok(Some(Pending::Event(joined)));
                }
            }
        }
        // No event can go out.
        self.wait()?;
        Ok(None)
    }

    /// Whether the array is ready in the order of its device's queue. The struct then goes out
    /// without an event, and consumers use the data on that queue or wait for the queue.
    fn is_ready_in_its_order(&self) -> bool {
        let tree = self.tree();
        let is_in_order = |event| tree.is_in_order_of(event);
        tree.ready.pending().iter().all(|one| one.event().is_some_and(is_in_order))
    }

    #[cold]
    fn unknown_order(&self) -> Error {
        let message = "a part came without an event, and its device is not open, so that the event of another part does not tell when all is ready; open the device";
        let error = Error::new(ErrorKind::DeviceMissing, message);
        error.during("export").on_device(self.device())
    }

    #[cold]
    fn no_single_event(&self) -> Error {
        let in_order = usize::from(self.tree().is_in_queue_order());
        let message = match self.tree().ready.pending().len() + in_order {
            _ if !self.may_show_events() => "the data is not ready, and this type of device has no events to say so; settle it first".to_owned(),
            1 => "the data is ready after an event of a kind that arrays on this device do not show; name a queue, or settle the array first".to_owned(),
            count => format!(
                "the columns are ready after {count} different events, and there is room for one; name a queue to join them"
            ),
        };
        Error::new(ErrorKind::NotReady, message).during("export").on_device(self.device())
    }

    /// The exported struct without an event.
    pub(crate) fn exported_ready(&self) -> Result<ArrowDeviceArray> {
        let mut out = ArrowDeviceArray::empty();
        self.export_with(None, || self.tree().clone(), as_uninit(&mut out))?;
        Ok(out)
    }

    /// Writes the struct with this readiness. Nothing is written where there is an error.
    #[inline(always)]
    fn export_with(
        &self,
        pending: Option<Pending>,
        share: impl FnOnce() -> Shared<Tree>,
        out: &mut MaybeUninit<ArrowDeviceArray>,
    ) -> Result<()> {
        let device = self.device();
        // Host memory has no device number, whatever number the array came with. The specification
        // recommends -1.
        let is_host = device.device_type == DeviceType::CPU;
        let device_id = if is_host { DeviceId::CPU.id } else { device.id };
        let device_type = device.device_type.0;
        let out = out.as_mut_ptr();
        let array = out.wrapping_byte_add(offset_of!(ArrowDeviceArray, array));
        // SAFETY: `out` has room for the struct, so also for its member, which need not be
        // initialised. Nothing else refers to the member during `fill`.
        let array = unsafe { &mut *array.cast::<MaybeUninit<ArrowArray>>() };
        let sync_event = self.fill(pending, share, array)?;
        // SAFETY: `out` has room for the struct, so also for its member.
        unsafe { (*out).device_id = device_id };
        // SAFETY: `out` has room for the struct, so also for its member.
        unsafe { (*out).device_type = device_type };
        // SAFETY: `out` has room for the struct, so also for its member.
        unsafe { (*out).sync_event = sync_event };
        // SAFETY: `out` has room for the struct, so also for its member.
        unsafe { (*out).reserved = [0; 3] };
        Ok(())
    }

    /// Writes the base struct, and returns its `sync_event`. `share` gives the share of the tree
    /// that keeps the data and the event. Nothing is written where there is an error.
    #[inline(always)]
    fn fill(
        &self,
        pending: Option<Pending>,
        share: impl FnOnce() -> Shared<Tree>,
        out: &mut MaybeUninit<ArrowArray>,
    ) -> Result<*mut c_void> {
        told!(device = %self.device(), len = self.len(), "export");
        let event = match &pending {
            None => Some(ptr::null_mut()),
            Some(Pending::Foreign(event)) => Some(event.as_ptr()),
            // An event of this library has to be kept by an arena.
            Some(Pending::Event(_)) => None,
        };
        let share = match event {
            Some(event) if self.is_leaf() && !self.tree().is_of_the_parents_device() => {
                match self.exported_leaf(share) {
                    Ok(leaf) => {
                        out.write(leaf);
                        return Ok(event);
                    }
                    Err(share) => share,
                }
            }
            _ => share,
        };
        self.exported_tree(pending, share(), out)
    }

    /// Whether the struct can go out as a leaf, without an arena. The node has nothing below it, is
    /// no batch, and nobody counts exports: each counted export has an owner in an arena.
    #[inline(always)]
    fn is_leaf(&self) -> bool {
        let checks = self.tree().schema.checks();
        let is_leaf = numbered(checks.get(self.node_number() as usize)).is_leaf;
        is_leaf && !account::any_counts() && !self.is_batch
    }

    /// A struct for a node that has nothing below it. It needs no arena: it refers to the tree's
    /// own table of buffers, and holds a share of the tree, which also keeps what an imported array
    /// came with as `sync_event`.
    ///
    /// `share` is given back for a node that came back and whose length of data is known, because
    /// only an arena leads to that length.
    #[inline(always)]
    fn exported_leaf<S: FnOnce() -> Shared<Tree>>(
        &self,
        share: S,
    ) -> std::result::Result<ArrowArray, S> {
        let (tree, number) = (self.tree(), self.node_number());
        // Both come before a count changes, so that the compiler makes one branch of both.
        let (buffers, n_buffers) = tree.table(number);
        if let Storage::Foreign(structs) = tree.storage()
            && n_buffers == WITH_DATA
            && data_extent(structs, number).is_some()
        {
            return Err(share);
        }
        let Window { length, offset, null_count } = self.window();
        Ok(ArrowArray {
            length,
            null_count,
            offset,
            n_buffers: i64::from(n_buffers),
            buffers: buffers.cast_mut(),
            release: Some(RELEASE_CALLBACKS.of_leaf),
            private_data: Shared::into_raw(share()).cast_mut(),
            ..ArrowArray::empty()
        })
    }

    /// Writes the struct of a node, with everything below it in an arena, and returns its
    /// `sync_event`. An error in a child of `fork` for data on a device of its parent.
    #[inline(always)]
    fn exported_tree(
        &self,
        pending: Option<Pending>,
        share: Shared<Tree>,
        out: &mut MaybeUninit<ArrowArray>,
    ) -> Result<*mut c_void> {
        let checks = self.tree().schema.checks();
        match self.tree().storage() {
            Storage::Foreign(structs) => {
                let is_whole = self.node_number() == 0;
                let first = is_whole.then(|| FirstTree::before(structs)).flatten();
                let tables = ImportedNodes { structs, checks };
                self.exported_nodes(pending, (share, first), tables, out)
            }
            Storage::Built(Built { nodes, .. }) => {
                let tables = BuiltNodes { nodes: nodes.as_slice(), checks };
                self.exported_nodes(pending, (share, None), tables, out)
            }
        }
    }

    /// [`exported_tree`](Self::exported_tree), compiled once for each kind of table of nodes.
    #[inline(never)]
    fn exported_nodes(
        &self,
        pending: Option<Pending>,
        (share, first): (Shared<Tree>, Option<FirstTree>),
        tables: impl TreeSource<ArrowArray>,
        out: &mut MaybeUninit<ArrowArray>,
    ) -> Result<*mut c_void> {
        self.tree().check_process()?;
        let (tree, root) = (self.tree(), self.node_number());
        let room = ArenaRoom::new(tree.size_of(root))?;
        let shown = ShownEvent::of(pending.as_ref())?;
        let event = pending.and_then(Pending::into_event);
        let counted = tree.count(Direction::Exported);
        let owner = ExportedTree { _event: event, _counted: counted, tree: share, first };
        let owner = (owner, tree.origin());
        let ChildNumbers { first, count, .. } = tables.below(root);
        let (columns, plain) = (first..first + count, (root, self.exported_root()));
        let variable = if self.is_batch && !have_rows_of(self.window(), &tables, columns.clone()) {
            let rows = BatchRows { tables, columns, window: self.window() };
            room.build(plain, &rows, owner, shown.handle(), out)?
        } else {
            room.build(plain, &tables, owner, shown.handle(), out)?
        };
        Ok(shown.address(variable))
    }

    /// The root node, without its children.
    fn exported_root(&self) -> ArrayNode {
        let window = self.window();
        if self.is_batch && window.offset != 0 {
            // The columns of a batch have the offset of the batch, so the root goes out without it.
            // A bitmap of the root would now be read for other rows. No row of a batch is null, so
            // the bitmap is left out.
            let window = Window { offset: 0, ..window };
            return ArrayNode {
                window,
                buffers: NO_BITMAP.as_ptr(),
                n_buffers: 1,
                ..ArrayNode::EMPTY
            };
        }
        let (buffers, n_buffers) = self.tree().table(self.node_number());
        ArrayNode { window, buffers, n_buffers, extents: ArrayNode::NO_EXTENTS }
    }
}

/// The event that an exported struct shows.
enum ShownEvent {
    Nothing,
    /// A pointer to the arena's own variable, which holds this handle.
    Handle(*mut c_void),
    Address(NonNull<c_void>),
}

impl ShownEvent {
    fn of(pending: Option<&Pending>) -> Result<Self> {
        Ok(match pending {
            None => Self::Nothing,
            Some(Pending::Foreign(address)) => Self::Address(*address),
            Some(Pending::Event(event)) => match event.sync_event()? {
                SyncEvent::Handle(handle) => Self::Handle(handle),
                SyncEvent::Address(address) => Self::Address(address),
            },
        })
    }

    fn handle(&self) -> *mut c_void {
        if let Self::Handle(handle) = self { *handle } else { ptr::null_mut() }
    }

    fn address(&self, variable: *mut *mut c_void) -> *mut c_void {
        match self {
            Self::Nothing => ptr::null_mut(),
            Self::Handle(_) => variable.cast(),
            Self::Address(address) => address.as_ptr(),
        }
    }
}

impl Tree {
    /// The number of nodes of the subtree that begins at a node.
    fn size_of(&self, root: u32) -> usize {
        if root == 0 { self.node_count() } else { self.size_below(root) }
    }

    #[inline(never)]
    fn size_below(&self, root: u32) -> usize {
        let mut size = 0;
        let mut waiting = vec![root];
        while let Some(number) = waiting.pop() {
            size += 1;
            waiting.extend(self.schema.below(number).all());
        }
        size
    }
}

/// The table of buffers of a struct array without a validity bitmap.
const NO_BITMAP: &[*const c_void; 1] = &[ptr::null()];

/// The owner of an exported tree. Its event is dropped before its data.
pub(crate) struct ExportedTree {
    _event: Option<Event>,
    _counted: Option<CountedBytes>,
    pub(super) tree: Shared<Tree>,
    /// The first tree of the row that `tree` belongs to, if that is another one.
    pub(super) first: Option<FirstTree>,
}

/// Keeps the data of one node that a consumer moved out of an exported tree: the node as an array.
pub(crate) struct OfNode {
    /// The schema of the exported tree, whose numbers the nodes of the arena have.
    schema: Schema,
    source: u32,
    array: Array,
}

impl TreeOwner for ExportedTree {
    type Share = OfNode;

    fn share(&self, source: u32) -> OfNode {
        let array = Array::from_tree(self.tree.clone()).at_number(source).at_its_source();
        OfNode { schema: self.tree.schema.clone(), source, array }
    }
}

impl TreeShare for OfNode {
    fn narrow(&self, source: u32) -> Self {
        let steps = self.schema.steps_between(self.source, source);
        // The array has the nodes that its schema says.
        let array = numbered(self.array.descend(&steps).ok()).at_its_source();
        Self { schema: self.schema.clone(), source, array }
    }
}

impl CNode for ArrowArray {
    type Owner = ExportedTree;
    type Plain = ArrayNode;
    type Origin = MemoryOrigin;

    fn linked(node: ArrayNode, links: Links<Self>) -> Self {
        Self {
            length: node.window.length,
            null_count: node.window.null_count,
            offset: node.window.offset,
            n_buffers: i64::from(node.n_buffers),
            n_children: links.n_children,
            // The tree that the node lies in keeps the table, and never writes to it.
            buffers: node.buffers.cast_mut(),
            children: links.children,
            dictionary: links.dictionary,
            release: Some(links.release),
            private_data: links.private_data,
        }
    }

    fn callback() -> unsafe extern "C" fn(*mut Self) {
        RELEASE_CALLBACKS.of_node
    }

    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }

    fn private_data(&self) -> *mut c_void {
        self.private_data
    }
}
