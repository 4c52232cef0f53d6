use arrow_device::{Buffer, Device, Memory, Queue};

fn share(mut memory: Memory) -> Buffer {
    memory.write(&Queue::host(), &[7]).unwrap();
    memory.into_buffer()
}

fn main() {
    share(Device::host().allocate(8).unwrap());
}
