use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, Schema};

fn import(c_array: &mut ArrowDeviceArray, schema: &Schema) {
    Array::import(c_array, schema).unwrap_err();
}

fn main() {}
