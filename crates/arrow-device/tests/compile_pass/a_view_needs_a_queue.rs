use arrow_device::{Array, DataType, Queue, View};

fn look(array: &Array) -> View {
    array.on(&Queue::host()).unwrap()
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    look(&numbers());
}
