use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, DataType};

fn export(array: &Array, out: &mut ArrowDeviceArray) {
    array.export(out).unwrap();
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    let mut out = ArrowDeviceArray::empty();
    export(&numbers(), &mut out);
    // SAFETY: just exported.
    unsafe { Array::import(&mut out, &numbers().schema().unwrap()) }.unwrap();
}
