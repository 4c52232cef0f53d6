use arrow_device::{Device, Memory, Queue, driver};

fn spot(memory: &mut Memory) -> driver::Spot {
    memory.spot(&Queue::host()).unwrap()
}

fn main() {
    spot(&mut Device::host().allocate(8).unwrap());
}
