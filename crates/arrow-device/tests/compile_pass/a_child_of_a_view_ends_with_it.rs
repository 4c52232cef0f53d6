use arrow_device::{Array, DataType, Queue};

fn child(array: &Array) -> *const std::ffi::c_void {
    let view = array.on(&Queue::host()).unwrap();
    let node = view.root();
    node.buffer(1).location().address()
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    child(&numbers());
}
