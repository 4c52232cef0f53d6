use arrow_device::{Array, Queue};

fn use_address(array: &Array) -> *const std::ffi::c_void {
    let view = array.on(&Queue::host()).unwrap();
    let location = view.buffer(1).location();
    drop(view);
    location.address()
}

fn main() {}
