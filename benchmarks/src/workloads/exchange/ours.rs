//! This library, from each of the forms that a batch can come in.

use arrow_array_60::RecordBatch;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, Schema};
use arrow_device_arrow::v60::{FromArrow, ToArrow};

use super::data::Data;
use super::party::Party;
use crate::case::Peer;

/// Who owns what is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// One owner for all columns: it was imported, as the batches of a stream are.
    Imported,
    /// Each column has its own: it was put together here.
    Built,
    /// A batch of arrow-rs.
    ArrowRs,
}

impl Ours {
    pub(super) fn array(self, data: &Data) -> Array {
        match self {
            Self::Imported => data.imported(),
            Self::Built => data.array.clone(),
            Self::ArrowRs => Batch::from_arrow(arrow_rs(data)).unwrap().as_array().clone(),
        }
    }
}

/// The same as a batch of arrow-rs, over the same buffers.
pub(super) fn arrow_rs(data: &Data) -> RecordBatch {
    Batch::try_from(data.array.clone()).unwrap().to_arrow().unwrap()
}

impl Party for Ours {
    type Held = (Array, Schema);
    type Known = Schema;
    type Target = Option<Array>;

    fn peer(self) -> Peer {
        match self {
            Self::Imported => Peer::ArrowDevice,
            Self::Built => Peer::ArrowDeviceFrom("built from columns"),
            Self::ArrowRs => Peer::ArrowDeviceFrom("from arrow-rs"),
        }
    }

    fn hold(self, data: &Data) -> Self::Held {
        let array = self.array(data);
        let schema = array.schema().unwrap();
        (array, schema)
    }

    fn export(self, (array, _): &Self::Held, out: &mut ArrowDeviceArray) {
        array.export(out).unwrap();
    }

    fn export_schema(self, (_, schema): &Self::Held, out: &mut ArrowSchema) {
        schema.export(out).unwrap();
    }

    fn know(self, schema: &mut ArrowSchema, _: bool) -> Schema {
        // SAFETY: a schema that keeps to the interface.
        unsafe { Schema::import(schema) }.unwrap()
    }

    fn import(self, known: &mut Schema, array: &mut ArrowDeviceArray, place: &mut Option<Array>) {
        // SAFETY: an array that keeps to the interface, of this schema.
        *place = Some(unsafe { Array::import(array, known) }.unwrap());
    }

    fn import_both(
        self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
        is_batch: bool,
        place: &mut Option<Array>,
    ) {
        let mut known = self.know(schema, is_batch);
        self.import(&mut known, array, place);
    }

    fn clear(self, place: &mut Option<Array>) {
        *place = None;
    }

    fn column(self, place: &Option<Array>, column: usize) -> usize {
        place.as_ref().unwrap().child(column).unwrap().len()
    }

    fn number(self, place: &Option<Array>, column: usize, row: usize) -> Option<i64> {
        let array = place.as_ref().unwrap();
        let is_flat = array.child_count() == 0;
        let array = if is_flat { array.clone() } else { array.child(column).unwrap() };
        array.host().unwrap().values::<i64>().unwrap().get(row)
    }
}
