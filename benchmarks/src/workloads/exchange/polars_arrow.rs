//! The crate `polars-arrow`, by its C data interface. It knows no devices, and a batch is a struct
//! array.

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use polars_arrow::array::{Array, PrimitiveArray, StaticArray as _, StructArray};
use polars_arrow::datatypes::Field;
use polars_arrow::ffi;

use super::data::Data;
use super::party::{Party, known};
use crate::case::Peer;

#[derive(Clone, Copy, Debug)]
pub(super) struct PolarsArrow;

impl Party for PolarsArrow {
    type Held = (Box<dyn Array>, Field);
    type Known = Field;
    type Target = Option<Box<dyn Array>>;

    fn peer(self) -> Peer {
        Peer::PolarsArrow
    }

    fn hold(self, data: &Data) -> Self::Held {
        let mut field = known(self, data);
        let (mut array, mut place) = (ArrowDeviceArray::empty(), None);
        data.export(&mut array);
        self.import(&mut field, &mut array, &mut place);
        (place.unwrap(), field)
    }

    fn export(self, (array, _): &Self::Held, out: &mut ArrowDeviceArray) {
        let array = ffi::export_array_to_c(array.clone());
        // SAFETY: both are the `ArrowArray` of the interface, and `out` may be written.
        unsafe { (&raw mut out.array).cast::<ffi::ArrowArray>().write(array) };
        (out.device_id, out.device_type) = (-1, 1);
        (out.sync_event, out.reserved) = (std::ptr::null_mut(), [0; 3]);
    }

    fn export_schema(self, (_, field): &Self::Held, out: &mut ArrowSchema) {
        let schema = ffi::export_field_to_c(field);
        // SAFETY: both are the `ArrowSchema` of the interface, and `out` may be written.
        unsafe { (&raw mut *out).cast::<ffi::ArrowSchema>().write(schema) };
    }

    fn know(self, schema: &mut ArrowSchema, _: bool) -> Field {
        // SAFETY: both are the `ArrowSchema` of the interface.
        let schema = unsafe { &*(&raw const *schema).cast::<ffi::ArrowSchema>() };
        // SAFETY: a schema that keeps to the interface.
        unsafe { ffi::import_field_from_c(schema) }.unwrap()
    }

    fn import(self, known: &mut Field, array: &mut ArrowDeviceArray, place: &mut Self::Target) {
        // SAFETY: both are the `ArrowArray` of the interface.
        let moved = unsafe { (&raw const array.array).cast::<ffi::ArrowArray>().read() };
        array.array.release = None;
        // SAFETY: an array that keeps to the interface, of this type.
        *place = Some(unsafe { ffi::import_array_from_c(moved, known.dtype.clone()) }.unwrap());
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
        let array = place.as_ref().unwrap().as_any().downcast_ref::<StructArray>().unwrap();
        array.values()[column].len()
    }

    fn number(self, place: &Self::Target, column: usize, row: usize) -> Option<i64> {
        let array = place.as_ref().unwrap();
        let array = match array.as_any().downcast_ref::<StructArray>() {
            Some(batch) => &batch.values()[column],
            None => array,
        };
        array.as_any().downcast_ref::<PrimitiveArray<i64>>().unwrap().get(row)
    }
}
