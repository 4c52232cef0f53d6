//! Views: an array for work on one queue.

use std::fmt;

use super::tree::Tree;
use super::{Array, Window};
use crate::device::deferred::QueueUse;
use crate::device::driver::{Raw, Watched};
use crate::device::queue::PreparedEvent;
use crate::device::{Location, location};
use crate::pool::shared::Shared;

use crate::{DataType, Error, ErrorKind, Extent, Queue, Result};

/// Keeps a tree until a queue has passed the work that was submitted before the lease is dropped.
struct Lease {
    tree: Shared<Tree>,
    end: Option<PreparedEvent>,
}

impl Lease {
    /// Orders the queue behind the data, and makes the event that will stand for the end of the
    /// use. The event is made before any work is submitted, so that noting the end cannot fail for
    /// want of an event.
    fn take(tree: &Shared<Tree>, queue: &Queue) -> Result<Self> {
        let end = queue.prepare_event()?;
        tree.order(queue)?;
        if queue.is_watched() {
            tree.tell_of_use(queue, Watched::Told);
        }
        Ok(Self { tree: tree.clone(), end: Some(end) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            if end.queue().is_watched() {
                self.tree.tell_of_use(end.queue(), Watched::Withdrawn);
            }
            self.tree.note_use(QueueUse::until_recorded(end));
        }
    }
}

/// An array, for work on one queue: the only thing that tells where its buffers are.
///
/// The queue is ordered behind the array's data when the view is made. Dropping the view says that
/// all work that uses the addresses of the view has been submitted. The memory is kept until the
/// queue has passed that work. Forgetting a view ([`std::mem::forget`]) keeps the memory for ever.
pub struct View {
    // Dropped first: the use has to be noted before the share of the tree is given up.
    lease: Lease,
    array: Array,
    queue: Queue,
}

impl View {
    pub(super) fn new(array: &Array, queue: &Queue) -> Result<Self> {
        let lease = Lease::take(array.tree(), queue)?;
        Ok(Self { lease, array: array.clone(), queue: queue.clone() })
    }

    /// The array itself.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The queue that was named.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The root of the tree.
    pub fn root(&self) -> NodeView<'_> {
        debug_assert!(Shared::ptr_eq(&self.lease.tree, self.array.tree()));
        NodeView { array: self.array.clone(), view: self }
    }

    /// A buffer of the root: the same as `root().buffer(index)`.
    pub fn buffer(&self, index: usize) -> BufferPlace<'_> {
        place(&self.array, index)
    }

    /// A child of the root: the same as `root().child(index)`.
    pub fn child(&self, index: usize) -> Result<NodeView<'_>> {
        self.root().child(index)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({:?} for {:?})", self.array, self.queue)
    }
}

/// One node of a [`View`].
#[derive(Clone)]
pub struct NodeView<'view> {
    array: Array,
    view: &'view View,
}

impl<'view> NodeView<'view> {
    /// The view that the node is of.
    pub fn view(&self) -> &'view View {
        self.view
    }

    /// The type of the node.
    pub fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    /// How many elements come before the first one, in every buffer.
    pub fn offset(&self) -> i64 {
        self.array.window().offset
    }

    /// How many elements.
    pub fn len(&self) -> i64 {
        self.array.window().length
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements are null, where that is known.
    pub fn null_count(&self) -> Option<usize> {
        self.array.null_count()
    }

    /// How many buffers there are.
    pub fn buffer_count(&self) -> usize {
        self.array.buffer_count()
    }

    /// A buffer. A number that is not below [`buffer_count`](Self::buffer_count) gives a null one.
    pub fn buffer(&self, index: usize) -> BufferPlace<'view> {
        place(&self.array, index)
    }

    /// How long a data buffer of a view type is, by the sizes that the producer gave. Data buffers
    /// have the numbers from 2 on. 0 for a number that no data buffer has.
    ///
    /// The sizes are host memory, or memory of the device where its runtime tells so. This waits
    /// until sizes on the device are read.
    pub fn data_buffer_len(&self, index: usize) -> Result<u64> {
        self.array.data_buffer_len(index, Some(&self.view.queue))
    }

    /// A child of the node, uncut: a parent's offset and length do not apply to it.
    pub fn child(&self, index: usize) -> Result<Self> {
        Ok(Self { array: self.array.node_child(index)?, view: self.view })
    }

    /// The values of a dictionary-encoded array.
    pub fn dictionary(&self) -> Result<Self> {
        let array = self.array.node_dictionary().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("{} has no dictionary", self.data_type()),
            )
        })?;
        Ok(Self { array, view: self.view })
    }
}

impl fmt::Debug for NodeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { offset, length, .. } = self.array.window();
        write!(f, "NodeView({} {offset}+{length})", self.data_type())
    }
}

/// Where one buffer of a view is, and how long.
#[derive(Clone, Copy, Debug)]
pub struct BufferPlace<'view> {
    location: Location<'view>,
    extent: Extent,
}

impl<'view> BufferPlace<'view> {
    /// Where the buffer is.
    pub fn location(&self) -> Location<'view> {
        self.location
    }

    /// How long the buffer is, as far as that is known without asking the device.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

fn place<'view>(array: &Array, index: usize) -> BufferPlace<'view> {
    let base = Raw::from_ptr(array.node().buffer(index).cast_mut());
    BufferPlace { location: location(base, 0), extent: array.extent(index) }
}
