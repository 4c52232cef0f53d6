use arrow_device::{Array, DataType, Queue};

fn use_address(array: &Array) -> *const std::ffi::c_void {
    let view = array.on(&Queue::host()).unwrap();
    let location = view.buffer(1).location();
    let address = location.address();
    drop(view);
    address
}

fn numbers() -> Array {
    let values = Some(vec![1_i32, 2, 3].into());
    Array::builder(DataType::Int32).len(3).buffers([None, values]).finish_ready().unwrap()
}

fn main() {
    use_address(&numbers());
}
