//! Writing an `ArrowDeviceArray`.
//!
//! One arena holds every struct of the tree; tables of buffers are those that the tree has. No device is called, nothing is counted, no null is looked for: what
//! is known travels, and an event is handed on as it came.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{self, NonNull};

use super::tree::{Built, Node, Pending, Readiness, Storage, Structs, Tree};
use super::{Array, Window};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::convention;
use crate::device::account::{self, Counted, Direction};
use crate::device::driver::SyncEvent;
use crate::exchange::arena::{self, Below, Links, Owner, Share, Source};
use crate::exchange::guard;
use crate::exchange::shared::Shared;
use crate::schema::{Check, Schema};
use crate::{DeviceId, DeviceType, Error, ErrorKind, Event, Queue, Result};

impl Array {
    /// Hands the array to a consumer: fills the struct that the consumer allocated.
    ///
    /// The struct is overwritten without being released, `reserved` included; on failure it is left as it was. From then on
    /// the data is kept until the consumer calls `release`. The consumer's call says that its own work on the data is done.
    ///
    /// No device is called. The event that the array came with or was made with goes out unchanged; an array that is ready
    /// has none. An array that is not ready, on a type of device that has no events, is an error. Columns with different
    /// events cannot share the one place for an event: use [`export_on`](Self::export_on) or
    /// [`export_settled`](Self::export_settled).
    ///
    /// ```
    /// use arrow_device::abi::ArrowDeviceArray;
    /// use arrow_device::{Array, DataType};
    ///
    /// let buffers = [Some(vec![0b101_u8].into()), Some(vec![1_i64, 0, 3].into())];
    /// let numbers = Array::builder(DataType::Int64).len(3).null_count(1).buffers(buffers).finish_ready()?;
    /// let mut c_array = ArrowDeviceArray::empty();
    /// numbers.export(&mut c_array)?;
    ///
    /// let again = unsafe { Array::import(&mut c_array, &numbers.schema()?) }?;
    /// assert_eq!(again.null_count(), Some(1));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn export(&self, out: &mut ArrowDeviceArray) -> Result<()> {
        *out = self.exported(self.single_pending()?)?;
        Ok(())
    }

    /// [`export`](Self::export) into memory that may not be initialised.
    ///
    /// # Safety
    /// `out` may be written.
    pub unsafe fn export_to(&self, out: *mut ArrowDeviceArray) -> Result<()> {
        let exported = self.exported(self.single_pending()?)?;
        // SAFETY: promised by the caller.
        unsafe { out.write(exported) };
        Ok(())
    }

    /// [`export`](Self::export), with several events joined: the queue waits for each of them and records one.
    ///
    /// Where there is one event or none, it goes out unchanged and the queue is not used. On a type of device that has no
    /// events to show, this waits on the host.
    pub fn export_on(&self, queue: &Queue, out: &mut ArrowDeviceArray) -> Result<()> {
        let pending = match &self.tree().ready {
            Readiness::Now => None,
            _ if !self.may_show_events() => {
                self.wait()?;
                None
            }
            Readiness::AfterAll(all) => {
                queue.reaches(self.device())?;
                all.iter().try_for_each(|pending| self.tree().wait_for(queue, pending))?;
                Some(Pending::Event(queue.record()?))
            }
            _ => self.single_pending()?,
        };
        *out = self.exported(pending)?;
        Ok(())
    }

    /// [`export`](Self::export) without an event, for consumers that are known to ignore them: waits on the host first.
    pub fn export_settled(&self, out: &mut ArrowDeviceArray) -> Result<()> {
        self.wait()?;
        *out = self.exported(None)?;
        Ok(())
    }

    /// Hands the array to a consumer that only knows plain `ArrowArray`s, which lie in host memory.
    pub fn export_host(&self, out: &mut ArrowArray) -> Result<()> {
        if self.device().device_type != DeviceType::CPU {
            let message =
                "only host memory travels without the device interface; copy it to the host";
            return Err(Error::new(ErrorKind::Unsupported, message)
                .during("export")
                .on_device(self.device()));
        }
        *out = self.exported(None)?.array;
        Ok(())
    }

    fn may_show_events(&self) -> bool {
        convention::may_have_event(self.device().device_type)
    }

    fn single_pending(&self) -> Result<Option<Pending>> {
        let message = match &self.tree().ready {
            Readiness::Now => return Ok(None),
            _ if !self.may_show_events() => {
                "the data is not ready, and this type of device has no events to say so; settle it first".to_owned()
            }
            Readiness::After(pending) => return Ok(Some(pending.clone())),
            Readiness::AfterAll(all) => format!(
                "the columns are ready after {} different events, and there is room for one; name a queue to join them",
                all.len()
            ),
        };
        Err(Error::new(ErrorKind::NotReady, message).during("export").on_device(self.device()))
    }

    /// The struct, ready after this.
    pub(crate) fn exported(&self, pending: Option<Pending>) -> Result<ArrowDeviceArray> {
        let mut window = self.window();
        let (mut array, sync_event) = match pending {
            pending if self.is_batch => {
                window.offset = 0;
                self.exported_tree(pending)?
            }
            None if self.is_leaf() => (self.exported_leaf(), ptr::null_mut()),
            Some(Pending::Foreign(event)) if self.is_leaf() => {
                (self.exported_leaf(), event.as_ptr())
            }
            pending => self.exported_tree(pending)?,
        };
        array.length = window.length;
        array.offset = window.offset;
        array.null_count = window.null_count;
        let device = self.device();
        // Host memory has no number, whatever it came with: -1 is what the specification recommends.
        let is_host = device.device_type == DeviceType::CPU;
        Ok(ArrowDeviceArray {
            array,
            device_id: if is_host { DeviceId::CPU.id } else { device.id },
            device_type: device.device_type.0,
            sync_event,
            reserved: [0; 3],
        })
    }

    /// Whether nothing is below. Where exports are counted every one has an owner, which a leaf would not need.
    fn is_leaf(&self) -> bool {
        let checks = self.tree().schema.checks();
        let is_leaf = checks.get(self.node_number() as usize).is_some_and(|check| check.is_leaf);
        is_leaf && !account::any_counts()
    }

    /// A struct for a node that has nothing below it. It needs no arena: it refers to the tree's own table of buffers, and
    /// holds a share of the tree, which also keeps what an imported array came with as `sync_event`.
    fn exported_leaf(&self) -> ArrowArray {
        let node = self.node();
        ArrowArray {
            n_buffers: i64::from(node.n_buffers),
            buffers: node.buffers.cast_mut(),
            release: Some(release_leaf),
            private_data: Shared::into_raw(self.tree().clone()).cast_mut(),
            ..ArrowArray::empty()
        }
    }

    /// A struct for a node and everything below it, in an arena; and what its `sync_event` is.
    fn exported_tree(&self, pending: Option<Pending>) -> Result<(ArrowArray, *mut c_void)> {
        let checks = self.tree().schema.checks();
        match self.tree().storage() {
            Storage::Foreign(structs) => self.exported_nodes(pending, Imported { structs, checks }),
            Storage::Built(Built { nodes, .. }) => {
                self.exported_nodes(pending, Tables { nodes: nodes.as_slice(), checks })
            }
        }
    }

    /// [`exported_tree`](Self::exported_tree), compiled for each kind of tree.
    #[inline(never)]
    fn exported_nodes(
        &self,
        pending: Option<Pending>,
        tables: impl Source<ArrowArray>,
    ) -> Result<(ArrowArray, *mut c_void)> {
        let (tree, root) = (self.tree(), self.node_number());
        let shown = Shown::of(pending.as_ref());
        let event = pending.as_ref().and_then(Pending::event).cloned();
        let counted = tree.count(Direction::Exported);
        let owner = Whole { _event: event, _counted: counted, tree: tree.clone() };
        let size = tree.size_of(root);
        let (array, variable) = if self.is_batch {
            let Below { first, count, .. } = tables.below(root);
            let rows = Rows { tables, root, columns: first..first + count, window: self.window() };
            arena::build(size, root, &rows, owner, shown.handle())?
        } else {
            arena::build(size, root, &tables, owner, shown.handle())?
        };
        Ok((array, shown.address(variable)))
    }
}

/// The callback of a leaf.
///
/// # Safety
/// As the specification says of a release callback: `array` is a struct that `exported_leaf` filled, or a bitwise move of
/// one, and not released yet (a null pointer and a released struct are tolerated).
unsafe extern "C" fn release_leaf(array: *mut ArrowArray) {
    guard::silent(|| {
        // SAFETY: the specification passes a pointer to the consumer's struct, which nobody else touches during the call.
        let Some(array) = (unsafe { array.as_mut() }) else { return };
        if array.release.take().is_some() {
            // SAFETY: `private_data` is the consumer's to keep, so it is the share that `exported_leaf` gave away; it is
            // taken back once, since a release "MUST" mark the struct as released.
            drop(unsafe { Shared::<Tree>::from_raw(array.private_data) });
        }
    });
}

/// What `sync_event` is.
enum Shown {
    Nothing,
    /// The arena's own variable, which holds this handle.
    Handle(*mut c_void),
    Address(NonNull<c_void>),
}

impl Shown {
    fn of(pending: Option<&Pending>) -> Self {
        match pending {
            None => Self::Nothing,
            Some(Pending::Foreign(address)) => Self::Address(*address),
            Some(Pending::Event(event)) => match event.sync_event() {
                SyncEvent::Handle(handle) => Self::Handle(handle),
                SyncEvent::Address(address) => Self::Address(address),
            },
        }
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
    /// How many nodes there are from a node on downwards.
    fn size_of(&self, root: u32) -> usize {
        if root == 0 {
            return self.node_count();
        }
        let mut size = 0;
        let mut waiting = vec![root];
        while let Some(number) = waiting.pop() {
            size += 1;
            waiting.extend(self.schema.node(number).below());
        }
        size
    }
}

/// The nodes of a tree that was put together here and is being exported.
struct Tables<'tree> {
    nodes: &'tree [Node],
    checks: &'tree [Check],
}

impl Source<ArrowArray> for Tables<'_> {
    #[inline(always)]
    fn below(&self, source: u32) -> Below {
        Check::below(self.checks.get(source as usize))
    }

    fn node(&self, source: u32) -> Option<Node> {
        self.nodes.get(source as usize).copied()
    }

    #[inline(always)]
    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = Node> {
        let nodes = self.nodes.get(numbers.start as usize..numbers.end as usize);
        nodes.unwrap_or_default().iter().copied()
    }
}

/// The nodes of a tree that was imported and is being exported.
struct Imported<'tree> {
    structs: &'tree Structs,
    checks: &'tree [Check],
}

impl Source<ArrowArray> for Imported<'_> {
    #[inline(always)]
    fn below(&self, source: u32) -> Below {
        Check::below(self.checks.get(source as usize))
    }

    fn node(&self, source: u32) -> Option<Node> {
        self.structs.node(source, self.checks)
    }

    #[inline(always)]
    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = Node> {
        self.structs.nodes(numbers, self.checks)
    }
}

/// The table of buffers of a struct without nulls.
const NO_BITMAP: &[*const c_void; 1] = &[ptr::null()];

/// The tables of a tree whose root is a record batch: each column has exactly its rows, and the struct around them no offset.
/// Shipped consumers refuse an offset there, and take no notice of the length.
struct Rows<S> {
    tables: S,
    root: u32,
    /// The numbers of the columns.
    columns: Range<u32>,
    /// Of the batch.
    window: Window,
}

impl<S: Source<ArrowArray>> Source<ArrowArray> for Rows<S> {
    #[inline(always)]
    fn below(&self, source: u32) -> Below {
        self.tables.below(source)
    }

    fn node(&self, source: u32) -> Option<Node> {
        if source == self.root && self.window.offset != 0 {
            // A bitmap would be that of other rows now. It says of none that it is null.
            return Some(Node { buffers: NO_BITMAP.as_ptr(), n_buffers: 1, ..Node::EMPTY });
        }
        self.tables.node(source)
    }

    #[inline(always)]
    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = Node> {
        let (rows, are_columns) = (self.window, numbers == self.columns);
        self.tables.children(numbers).map(move |mut node| {
            // Most columns have just the rows of the batch, and stay as they are.
            if are_columns && (rows.offset != 0 || node.window.length != rows.length) {
                node.window = node.window.part(rows.offset, rows.length);
            }
            node
        })
    }
}

/// The owner of an exported tree. Its event is dropped before the data.
pub(crate) struct Whole {
    _event: Option<Event>,
    _counted: Option<Counted>,
    tree: Shared<Tree>,
}

/// What keeps one node alive that was moved out: the array that it came from.
pub(crate) struct OfNode {
    /// The numbers are those of the tree that was exported.
    schema: Schema,
    source: u32,
    array: Array,
}

impl Owner for Whole {
    type Share = OfNode;

    fn share(&self, source: u32) -> OfNode {
        let array = Array::from_tree(self.tree.clone()).at_number(source).at_its_source();
        OfNode { schema: self.tree.schema.clone(), source, array }
    }
}

impl Share for OfNode {
    fn narrow(&self, source: u32) -> Self {
        let steps = self.schema.steps_between(self.source, source);
        // The array has the nodes that its schema says; were it not so, the whole of it is kept.
        let array =
            self.array.descend(&steps).unwrap_or_else(|_| self.array.clone()).at_its_source();
        Self { schema: self.schema.clone(), source, array }
    }
}

impl arena::Node for ArrowArray {
    type Owner = Whole;
    type Plain = Node;

    #[inline(always)]
    fn linked(node: Node, links: Links<Self>) -> Self {
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

    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }

    fn private_data(&self) -> *mut c_void {
        self.private_data
    }
}
