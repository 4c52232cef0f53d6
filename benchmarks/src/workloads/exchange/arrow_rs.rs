//! The crates `arrow-*`, by their C data interface. They know no devices: what a device struct adds
//! is filled in here.

use arrow_array_60::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array_60::{Array as _, ArrayRef, Int64Array, RecordBatch, StructArray, make_array};
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_schema_60::{DataType, Field, Schema, SchemaRef};

use super::data::Data;
use super::from_arrow_rs::{BatchSlot, case};
use super::party::Party;
use crate::case::{Case, Peer};

#[derive(Clone, Copy, Debug)]
pub(super) struct ArrowRs;

/// What it imports. Its own reader of streams makes batches of struct arrays.
#[derive(Debug)]
pub(super) enum Imported {
    Array(ArrayRef),
    Batch(RecordBatch),
}

/// A field, or the schema of a batch with its columns as a struct.
pub(super) type KnownFields = (Field, Option<SchemaRef>);

impl Party for ArrowRs {
    /// A batch is held as the struct array that it has to be for C, so that only the export itself
    /// is timed.
    type Held = (ArrayRef, KnownFields);
    type Known = KnownFields;
    type Target = Option<Imported>;

    fn peer(self) -> Peer {
        Peer::ArrowRs
    }

    fn hold(self, data: &Data) -> Self::Held {
        let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        data.export_schema(&mut schema);
        data.export(&mut array);
        let known = self.know(&mut schema, data.is_batch);
        super::party::release_schema(&mut schema);
        // SAFETY: an array of this library, of this type.
        let array =
            unsafe { from_ffi_and_data_type(take(&mut array), known.0.data_type().clone()) };
        (make_array(array.unwrap()), known)
    }

    fn export(self, (array, _): &Self::Held, out: &mut ArrowDeviceArray) {
        put(FFI_ArrowArray::new(&array.to_data()), out);
    }

    fn export_schema(self, (_, (field, schema)): &Self::Held, out: &mut ArrowSchema) {
        let exported = match schema {
            Some(schema) => FFI_ArrowSchema::try_from(schema.as_ref()),
            None => FFI_ArrowSchema::try_from(field),
        };
        // SAFETY: both are the `ArrowSchema` of the interface, and `out` may be written.
        unsafe { (&raw mut *out).cast::<FFI_ArrowSchema>().write(exported.unwrap()) };
    }

    fn know(self, schema: &mut ArrowSchema, is_batch: bool) -> KnownFields {
        // SAFETY: both are the `ArrowSchema` of the interface.
        let schema = unsafe { &*(&raw const *schema).cast::<FFI_ArrowSchema>() };
        if is_batch {
            let schema = Schema::try_from(schema).unwrap();
            let all = DataType::Struct(schema.fields().clone());
            (Field::new("", all, false), Some(schema.into()))
        } else {
            (Field::try_from(schema).unwrap(), None)
        }
    }

    fn import(
        self,
        known: &mut KnownFields,
        array: &mut ArrowDeviceArray,
        place: &mut Self::Target,
    ) {
        let data_type = known.0.data_type().clone();
        // SAFETY: an array that keeps to the interface, of this type.
        let data = unsafe { from_ffi_and_data_type(take(array), data_type) }.unwrap();
        *place = Some(match &known.1 {
            None => Imported::Array(make_array(data)),
            Some(schema) => {
                let (_, columns, _) = StructArray::from(data).into_parts();
                Imported::Batch(RecordBatch::try_new(schema.clone(), columns).unwrap())
            }
        });
    }

    fn import_both(
        self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
        is_batch: bool,
        place: &mut Self::Target,
    ) {
        let mut known = self.know(schema, is_batch);
        self.import(&mut known, array, place);
    }

    fn clear(self, place: &mut Self::Target) {
        *place = None;
    }

    fn column(self, place: &Self::Target, column: usize) -> usize {
        let Some(Imported::Batch(batch)) = place else { panic!("no batch was imported") };
        batch.column(column).len()
    }

    fn number(self, place: &Self::Target, column: usize, row: usize) -> Option<i64> {
        let array = match place.as_ref().unwrap() {
            Imported::Array(array) => array,
            Imported::Batch(batch) => batch.column(column),
        };
        let numbers = array.as_any().downcast_ref::<Int64Array>().unwrap();
        numbers.is_valid(row).then(|| numbers.value(row))
    }
}

/// Export of a batch that is given away, as its own stream does it.
pub(super) fn export_of_a_batch(data: &Data) -> Case {
    let export = |slot: &mut BatchSlot| {
        let batch = StructArray::from(slot.batch.take().unwrap());
        put(FFI_ArrowArray::new(&batch.to_data()), &mut slot.array);
    };
    case(Peer::ArrowRs, data, export)
}

/// Moves the array out of the C struct.
fn take(array: &mut ArrowDeviceArray) -> FFI_ArrowArray {
    // SAFETY: both are the `ArrowArray` of the interface; it is left as released.
    unsafe { FFI_ArrowArray::from_raw((&raw mut array.array).cast()) }
}

/// Moves an array into the C struct, on the host.
fn put(array: FFI_ArrowArray, out: &mut ArrowDeviceArray) {
    // SAFETY: both are the `ArrowArray` of the interface, and `out` may be written.
    unsafe { (&raw mut out.array).cast::<FFI_ArrowArray>().write(array) };
    (out.device_id, out.device_type) = (-1, 1);
    (out.sync_event, out.reserved) = (std::ptr::null_mut(), [0; 3]);
}
