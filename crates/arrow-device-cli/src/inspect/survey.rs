//! What there is to know of an array without a look at its data.
//!
//! The addresses are those that a consumer would be handed: the array is exported, and the C
//! structs are read.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::{Array, BufferKind, DataType, DeviceId, DeviceType, Extent, Schema, convention};

use crate::failure::Outcome;

/// One array.
pub(super) struct Survey {
    pub(super) device: DeviceId,
    pub(super) event: Option<Event>,
    pub(super) root: SurveyedArray,
    /// Kept, so that no other array's event is shown at the same address.
    _shown: Shown,
}

/// What the array's data is ready after.
pub(super) struct Event {
    /// `sync_event`.
    pub(super) address: usize,
    /// What it points to.
    pub(super) kind: &'static str,
    /// Whether it has passed; `None` where nobody here can ask.
    pub(super) has_passed: Option<bool>,
}

/// An array, or one of its children.
pub(super) struct SurveyedArray {
    /// From the root down, with dots; empty for the root.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) rows: usize,
    pub(super) offset: usize,
    pub(super) nulls: Option<usize>,
    pub(super) buffers: Vec<Buffer>,
    /// Children, and a dictionary behind them.
    pub(super) below: Vec<SurveyedArray>,
}

/// A buffer, or the place where one could be.
pub(super) struct Buffer {
    pub(super) kind: String,
    pub(super) extent: Extent,
    /// The address or the handle; 0 for none.
    pub(super) address: usize,
    pub(super) device: DeviceId,
}

impl Survey {
    pub(super) fn of(array: &Array) -> Outcome<Self> {
        let mut shown = Shown(ArrowDeviceArray::empty());
        array.export(&mut shown.0)?;
        let event = Event {
            address: shown.0.sync_event.addr(),
            kind: convention::of(array.device().device_type)
                .and_then(|convention| convention.event)
                .unwrap_or("an event of an unknown kind"),
            has_passed: array.is_ready().ok(),
        };
        let root = SurveyedArray::of(&shown.0.array, array, array.schema()?, String::new())?;
        let event = Some(event).filter(|event| event.address != 0);
        Ok(Self { device: array.device(), event, root, _shown: shown })
    }

    /// The columns of a batch; the array itself, if it is none.
    pub(super) fn columns(&self) -> &[SurveyedArray] {
        if self.is_batch() { &self.root.below } else { std::slice::from_ref(&self.root) }
    }

    /// Every node with the number of the column that it belongs to, as [`columns`](Self::columns)
    /// counts them. What belongs to all of them has the number behind the last one.
    pub(super) fn nodes(&self) -> Vec<(usize, &SurveyedArray)> {
        let columns = self.columns();
        let root = self.is_batch().then_some((columns.len(), &self.root));
        let below = columns.iter().enumerate();
        let below =
            below.flat_map(|(column, top)| top.all().into_iter().map(move |node| (column, node)));
        root.into_iter().chain(below).collect()
    }

    fn is_batch(&self) -> bool {
        self.root.data_type == "struct"
    }
}

impl SurveyedArray {
    fn of(shown: &ArrowArray, array: &Array, schema: Schema, path: String) -> Outcome<Self> {
        let count = array.child_count();
        let mut below = Vec::new();
        for index in 0..count {
            let child = array.child(index)?;
            // SAFETY: our own export wrote as many children as the type has.
            let place = unsafe { shown.children.wrapping_add(index).read() };
            // SAFETY: our own export wrote a pointer to a struct here, and nobody has released or
            // moved the struct.
            let child_shown = unsafe { &*place };
            let path = join(&path, child.field().name(), index);
            below.push(Self::of(child_shown, &child, child.schema()?, path)?);
        }
        if let Some(values) = array.dictionary() {
            // SAFETY: our own export wrote the dictionary that the type has.
            let values_shown = unsafe { &*shown.dictionary };
            let path = join(&path, "dictionary", count);
            let mut node = Self::of(values_shown, &values, values.schema()?, path)?;
            node.name = "dictionary".to_owned();
            below.push(node);
        }
        Ok(Self {
            path,
            name: array.field().name().to_owned(),
            data_type: short(schema.data_type()),
            rows: array.len(),
            offset: array.offset(),
            nulls: array.null_count(),
            buffers: (0..array.buffer_count())
                .map(|index| Buffer::of(shown, array, index))
                .collect(),
            below,
        })
    }

    /// This one and all below, parents first.
    pub(super) fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.below.iter().flat_map(Self::all)).collect()
    }
}

impl Buffer {
    fn of(shown: &ArrowArray, array: &Array, index: usize) -> Self {
        // SAFETY: our own export wrote as many buffers as the array has.
        let address = unsafe { shown.buffers.wrapping_add(index).read() };
        let is_sizes = array.buffer_kind(index).is_none() && index + 1 == array.buffer_count();
        // The sizes of the data buffers of views lie in host memory wherever the rest does.
        let device = if is_sizes { DeviceId::CPU } else { array.device() };
        let kind = match array.buffer_kind(index) {
            Some(kind) => name_of(kind).to_owned(),
            None if is_sizes => "sizes of the data".to_owned(),
            None => format!("data {}", index.saturating_sub(2)),
        };
        Self { kind, extent: extent(array, index), address: address.addr(), device }
    }
}

/// How long a buffer is. On the host the last offset may be asked.
fn extent(array: &Array, index: usize) -> Extent {
    let known = array.extent(index);
    if known != Extent::Unknown || array.device().device_type != DeviceType::CPU {
        return known;
    }
    let len = array.host().and_then(|host| Ok(host.buffer(index)?.len() as u64));
    len.map_or(Extent::Unknown, Extent::AtLeast)
}

/// A type without what the nodes below say anyway.
fn short(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary { index, .. } => format!("dictionary with keys of {index}"),
        DataType::FixedSizeList(_, size) => format!("fixed_size_list[{size}]"),
        nested if nested.is_nested() => {
            let text = nested.to_string();
            text.split('<').next().unwrap_or_default().to_owned()
        }
        leaf => leaf.to_string(),
    }
}

fn join(path: &str, name: &str, index: usize) -> String {
    let name = if name.is_empty() { index.to_string() } else { name.to_owned() };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

fn name_of(kind: BufferKind) -> &'static str {
    match kind {
        BufferKind::Validity => "validity",
        BufferKind::Offsets32 | BufferKind::Offsets64 | BufferKind::UnionOffsets => "offsets",
        BufferKind::Starts32 | BufferKind::Starts64 => "starts",
        BufferKind::Sizes32 | BufferKind::Sizes64 => "sizes",
        BufferKind::TypeIds => "type ids",
        BufferKind::VariableBytes => "data",
        BufferKind::Views => "views",
        _ => "values",
    }
}

/// An exported struct, which is released at the end.
struct Shown(ArrowDeviceArray);

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(release) = self.0.array.release {
            // SAFETY: the struct was exported here and is not released yet.
            unsafe { release(&mut self.0.array) }
        }
    }
}
