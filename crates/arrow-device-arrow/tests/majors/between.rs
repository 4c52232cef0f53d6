//! What crosses from one major of arrow-rs to another, through C structs, and back.

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::async_stream::{ArraysExt as _, Blocking};
use arrow_device::{Array, Error, ErrorKind, Schema};
use arrow_device_arrow::{v58 as ours58, v59 as ours59, v60 as ours60};
use arrow_device_sim::Sim;

use super::v58::each::batches as batches58;
use super::v60::each::batches as batches60;
use super::v60::each::samples::samples;

/// Hands an array over as C structs, as to another library in the process.
fn hand_over(array: Array) -> Array {
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    array.schema().unwrap().export(&mut c_schema).unwrap();
    array.export(&mut c_array).unwrap();
    drop(array);
    let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
    unsafe { Array::import(&mut c_array, &schema) }.unwrap()
}

#[test]
fn every_type_goes_through_all_majors_and_its_memory_is_released_at_the_end() {
    let mut count = 0;
    for sample in samples() {
        if ours58::ToArrow::to_arrow(sample.array.field()).is_err() {
            assert!(sample.name.contains("extension"), "{}", sample.name);
            continue;
        }
        let field = sample.array.field();
        let in_58 = ours58::ToArrow::to_arrow(&sample.array).unwrap();
        let field_58 = ours58::ToArrow::to_arrow(field).unwrap();
        let from_58 = hand_over(ours58::FromArrow::from_arrow((&field_58, in_58)).unwrap());
        let in_59 = ours59::ToArrow::to_arrow(&from_58).unwrap();
        let field_59 = ours59::ToArrow::to_arrow(from_58.field()).unwrap();
        drop(from_58);
        let from_59 = hand_over(ours59::FromArrow::from_arrow((&field_59, in_59)).unwrap());
        let in_60 = ours60::ToArrow::to_arrow(&from_59).unwrap();
        let field_60 = ours60::ToArrow::to_arrow(from_59.field()).unwrap();
        let from_60: Array = ours60::FromArrow::from_arrow((&field_60, in_60)).unwrap();
        assert_eq!(from_60.field(), field, "{}", sample.name);
        assert!(from_60.equals(&sample.array).unwrap(), "{}", sample.name);
        drop((from_59, from_60));
        let name = sample.name.clone();
        assert_eq!(sample.settle(), Ok(()), "{name}");
        count += 1;
    }
    assert!(count > 60 || cfg!(miri), "only {count} types");
}

#[test]
fn a_stream_of_one_major_is_read_as_one_of_another_and_so_are_its_errors() {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let lost = Error::new(ErrorKind::DeviceLost, "pulled out").from_vendor(7, "gone");
    let mut sent: Vec<_> = batches58::batches().into_iter().map(Ok).collect();
    sent.push(Err(ours58::ErrorExt::into_arrow_error(lost)));
    let given = batches58::Given::new(sent);
    let arrays: ours58::AsyncArrays<_> =
        ours58::FromArrow::from_arrow((batches58::schema(), given)).unwrap();
    let schema = arrays.schema().clone();
    let moved = arrays.copy_to(&queue).prefetch(2).to_host().prefetch(2);
    let reader = ours60::AsyncReader::new(schema, moved).unwrap();
    assert_eq!(reader.schema(), batches60::schema());
    let mut reader = Blocking::new(reader);
    for expected in batches60::batches() {
        assert_eq!(reader.next().unwrap().unwrap(), expected);
    }
    let error = reader.next().unwrap().unwrap_err();
    let error: Error = ours60::ErrorExt::from_arrow_error(error);
    assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::DeviceLost, 7));
    assert!(reader.next().is_none());
}
