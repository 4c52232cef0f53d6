use arrow_device::Array;

fn use_address(array: &Array) -> *const std::ffi::c_void {
    array.location(1).address()
}

fn main() {}
