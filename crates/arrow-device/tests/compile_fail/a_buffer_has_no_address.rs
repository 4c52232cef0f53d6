use arrow_device::Buffer;

fn use_address(buffer: &Buffer) -> *const std::ffi::c_void {
    buffer.location().address()
}

fn main() {}
