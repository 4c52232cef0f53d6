//! Writing an `ArrowDeviceArray`.
//!
//! One arena holds every struct and table of the tree. No device is called, nothing is counted, no null is looked for: what
//! is known travels, and an event is handed on as it came.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::Array;
use super::tree::{Pending, Readiness, Tree};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::convention;
use crate::device::account::{Counted, Direction};
use crate::device::driver::SyncEvent;
use crate::exchange::arena::{self, Below, Links, Owner, Share, Size, Source, Words};
use crate::schema::Schema;
use crate::{DeviceId, DeviceType, Error, ErrorKind, Event, Queue, Result};

impl Array {
    /// Hands the array to a consumer: fills the struct that the consumer allocated.
    ///
    /// The struct is overwritten without being released, `reserved` included; on failure it is left as it was. From then on
    /// the data is kept until the consumer calls `release`. The consumer's call says that its own work on the data is done.
    ///
    /// No device is called. The event that the array came with or was made with goes out unchanged; an array that is ready
    /// has none. An array that is not ready, on a type of device that has no events, is an error. Columns with different events cannot share the one place for an event: use
    /// [`export_on`](Self::export_on) or [`export_settled`](Self::export_settled).
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
        match &self.tree().ready {
            Readiness::Now => Ok(None),
            _ if !self.may_show_events() => {
                let message = "the data is not ready, and this type of device has no events to say so; settle it first";
                Err(Error::new(ErrorKind::NotReady, message)
                    .during("export")
                    .on_device(self.device()))
            }
            Readiness::After(pending) => Ok(Some(pending.clone())),
            Readiness::AfterAll(all) => {
                let message = format!(
                    "the columns are ready after {} different events, and there is room for one; name a queue to join them",
                    all.len()
                );
                Err(Error::new(ErrorKind::NotReady, message)
                    .during("export")
                    .on_device(self.device()))
            }
        }
    }

    /// The struct, ready after this.
    pub(crate) fn exported(&self, pending: Option<Pending>) -> Result<ArrowDeviceArray> {
        let tree = self.tree();
        let root = self.node_number();
        let size = tree.size_of(root);
        let (handle, event) = match &pending {
            Some(Pending::Event(event)) => match event.sync_event() {
                SyncEvent::Handle(handle) => (Some(handle), Shown::Slot),
                SyncEvent::Address(address) => (None, Shown::Address(address)),
            },
            Some(Pending::Foreign(address)) => (None, Shown::Address(*address)),
            None => (None, Shown::Nothing),
        };
        let keep = match pending {
            Some(Pending::Event(event)) => Some(event),
            _ => None,
        };
        let counted = tree.count(Direction::Exported);
        let owner = Whole { _event: keep, _counted: counted, tree: tree.clone() };
        let window = self.window();
        let handle = handle.unwrap_or(ptr::null_mut());
        let (mut array, slot) = arena::build(size, root, &**tree, owner, handle)?;
        array.length = window.length;
        array.offset = window.offset;
        array.null_count = window.null_count;
        let sync_event = match event {
            Shown::Nothing => ptr::null_mut(),
            Shown::Address(address) => address.as_ptr(),
            Shown::Slot => slot.cast(),
        };
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
}

/// What `sync_event` is.
enum Shown {
    Nothing,
    /// The arena's own variable, which holds the handle.
    Slot,
    Address(NonNull<c_void>),
}

impl Tree {
    /// How large an arena for a node and everything below it is.
    fn size_of(&self, root: u32) -> Size {
        if root == 0 {
            return Size { nodes: self.nodes().len(), words: self.buffer_count };
        }
        let mut size = Size { nodes: 0, words: 0 };
        let mut waiting = vec![root];
        while let Some(number) = waiting.pop() {
            size.nodes += 1;
            size.words +=
                self.nodes().get(number as usize).map_or(0, |node| node.n_buffers as usize);
            waiting.extend(self.schema.node(number).below());
        }
        size
    }
}

impl Source<ArrowArray> for Tree {
    #[inline]
    fn below(&self, source: u32) -> Below {
        self.schema.below(source)
    }

    #[inline]
    fn fill(&self, source: u32, words: &mut Words) -> ArrowArray {
        let mut out = ArrowArray::empty();
        if let Some(node) = self.nodes().get(source as usize) {
            out.length = node.window.length;
            out.offset = node.window.offset;
            out.null_count = node.window.null_count;
            out.n_buffers = i64::from(node.n_buffers);
            // SAFETY: a node's table has `n_buffers` entries, and the tree keeps it.
            out.buffers = unsafe { words.copy(node.buffers, node.n_buffers as usize) };
        }
        out
    }
}

/// The owner of an exported tree. Its event is dropped before the data.
pub(crate) struct Whole {
    _event: Option<Event>,
    _counted: Option<Counted>,
    tree: Arc<Tree>,
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

    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }

    fn private_data(&self) -> *mut c_void {
        self.private_data
    }

    fn link(&mut self, links: Links<Self>) {
        self.n_children = links.n_children;
        self.children = links.children;
        self.dictionary = links.dictionary;
        self.release = Some(links.release);
        self.private_data = links.private_data;
    }
}
