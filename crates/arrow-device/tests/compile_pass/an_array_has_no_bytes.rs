use arrow_device::{Array, DataType};

fn use_bytes(array: &Array) -> u8 {
    let ready = array.host().unwrap();
    ready.buffer(1).unwrap()[0]
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    assert_eq!(use_bytes(&numbers()), 1_i32.to_ne_bytes()[0]);
}
