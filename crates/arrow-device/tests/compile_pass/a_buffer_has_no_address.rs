use arrow_device::{Buffer, Queue};

fn use_address(buffer: &Buffer) -> *const std::ffi::c_void {
    let view = buffer.on(&Queue::host()).unwrap();
    view.location().address()
}

fn main() {
    use_address(&vec![1_i32, 2, 3].into());
}
