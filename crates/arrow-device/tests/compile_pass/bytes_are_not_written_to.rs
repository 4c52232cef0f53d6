use arrow_device::{Device, Memory, Queue};

fn change(memory: &mut Memory) {
    memory.write(&Queue::host(), &[7]).unwrap();
}

fn main() {
    change(&mut Device::host().allocate(8).unwrap());
}
