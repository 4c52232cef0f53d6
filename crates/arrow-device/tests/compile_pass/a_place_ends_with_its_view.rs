use arrow_device::{Array, BufferPlace, DataType, Queue, View};

fn place<'view>(view: &'view View) -> BufferPlace<'view> {
    view.buffer(1)
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    place(&numbers().on(&Queue::host()).unwrap());
}
