use arrow_device::{Buffer, DeviceId};

fn foreign(bytes: &'static [u8]) -> Buffer {
    // SAFETY: three bytes that live for ever.
    unsafe { Buffer::foreign(DeviceId::CPU, bytes.as_ptr().cast(), 3, ()) }
}

fn main() {
    foreign(b"abc");
}
