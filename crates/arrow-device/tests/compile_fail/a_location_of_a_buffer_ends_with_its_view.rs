use arrow_device::{Buffer, Queue};

fn use_address(buffer: &Buffer) -> *const std::ffi::c_void {
    let location = buffer.on(&Queue::host()).unwrap().location();
    location.address()
}

fn main() {}
