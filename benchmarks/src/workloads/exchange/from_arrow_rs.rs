//! Export of a batch of arrow-rs: made one of this library and exported, beside what arrow-rs does
//! itself.

use arrow_array_60::RecordBatch;
use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Batch, Schema};
use arrow_device_arrow::v60::FromArrow;

use super::data::Data;
use super::{ours, party};
use crate::case::{Case, Peer};

/// A batch that is given away, and what it is exported to.
pub(super) struct BatchSlot {
    pub(super) batch: Option<RecordBatch>,
    pub(super) array: ArrowDeviceArray,
}

/// With the schema known, as for all but the first batch of a stream.
pub(super) fn export(data: &Data) -> Case {
    let schema = data.array.schema().unwrap();
    let export = move |slot: &mut BatchSlot| {
        hand_over(&schema, slot.batch.take().unwrap(), &mut slot.array);
    };
    case(Peer::ArrowDevice, data, export)
}

pub(super) fn hand_over(schema: &Schema, batch: RecordBatch, out: &mut ArrowDeviceArray) {
    Batch::from_arrow((schema, batch)).unwrap().export(out).unwrap();
}

pub(super) fn case(peer: Peer, data: &Data, export: impl FnMut(&mut BatchSlot) + 'static) -> Case {
    let batch = ours::arrow_rs(data);
    let slots = if data.size >= 100 { 1 } else { 16 };
    let slots =
        (0..slots).map(|_| BatchSlot { batch: None, array: ArrowDeviceArray::empty() }).collect();
    let before = move |slot: &mut BatchSlot| slot.batch = Some(batch.clone());
    let after = |slot: &mut BatchSlot| party::release(&mut slot.array);
    let key = ("export from arrow-rs", data.shape, data.size);
    Case::in_place(key, peer, slots, before, export, after)
}
