//! Arrays as tensors and tensors as arrays, in host memory. (On devices the software device's tests
//! run the same.)

use arrow_device_testkit::tensors;

use arrow_device::dlpack::Conversion;
use arrow_device::{Array, DataType, Error, ErrorKind, Queue};

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    tensors::conversions::run(&Queue::host());
}

#[test]
fn an_error_says_what_to_do() {
    let message = |array: &Array| -> String {
        let refusal: Error = array.to_tensor(&Conversion::new()).unwrap_err();
        assert_eq!(refusal.operation(), Some("make a tensor"));
        refusal.to_string()
    };
    let dates = Array::from_values(DataType::Date32, [Some(1)]).unwrap();
    assert!(message(&dates).contains("as_integers"));
    let bits = Array::from_bools([Some(true)]).unwrap();
    assert!(message(&bits).contains("allow a copy"));
    let gap = Array::from_values(DataType::Int8, [Some(1_i8), None]).unwrap();
    assert!(message(&gap).contains("validity beside"));
    let record = DataType::struct_([arrow_device::Field::new("x", DataType::Int8, true)]);
    let record = Array::builder(record).len(2).buffers([None]).children([gap]).finish_ready();
    let error = record.unwrap().to_tensor(&Conversion::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
