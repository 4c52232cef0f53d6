use arrow_device::{Array, Queue};

fn child(array: &Array) -> *const std::ffi::c_void {
    let view = array.on(&Queue::host()).unwrap();
    let node = view.root();
    drop(view);
    node.buffer(1).location().address()
}

fn main() {}
