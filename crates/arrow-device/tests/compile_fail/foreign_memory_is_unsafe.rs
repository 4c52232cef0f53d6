use arrow_device::{Buffer, DeviceId};

fn foreign(bytes: &'static [u8]) -> Buffer {
    Buffer::foreign(DeviceId::CPU, bytes.as_ptr().cast(), 3, ())
}

fn main() {}
