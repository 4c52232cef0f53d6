use arrow_device::{Memory, driver};

fn spot(memory: &mut Memory) -> driver::Spot {
    memory.spot().unwrap()
}

fn main() {}
