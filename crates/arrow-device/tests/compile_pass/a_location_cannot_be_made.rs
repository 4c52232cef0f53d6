use arrow_device::{Array, DataType, Location, Queue, View};

fn make(view: &View) -> Location<'_> {
    view.buffer(0).location()
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    make(&numbers().on(&Queue::host()).unwrap());
}
