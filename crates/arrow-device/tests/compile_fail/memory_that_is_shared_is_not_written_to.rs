use arrow_device::{Buffer, Memory, Queue};

fn share(mut memory: Memory) -> Buffer {
    let buffer = memory.into_buffer();
    memory.write(&Queue::host(), &[7]).unwrap();
    buffer
}

fn main() {}
