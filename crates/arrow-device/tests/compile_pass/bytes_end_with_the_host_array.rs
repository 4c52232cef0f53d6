use arrow_device::{Array, DataType, HostArray, HostBytes};

fn bytes(array: &HostArray) -> HostBytes<'_> {
    array.buffer(1).unwrap()
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    bytes(&numbers().host().unwrap());
}
