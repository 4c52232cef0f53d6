use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, DataType, Schema};

fn import(c_array: &mut ArrowDeviceArray, schema: &Schema) {
    // SAFETY: the struct is released.
    unsafe { Array::import(c_array, schema) }.unwrap_err();
}

fn main() {
    import(&mut ArrowDeviceArray::empty(), &Schema::new(DataType::Int8).unwrap());
}
