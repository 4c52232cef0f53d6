use arrow_device::dlpack::Tensor;
use arrow_device::{Location, Queue};

fn place<'a>(tensor: &'a Tensor, queue: &'a Queue) -> Location<'a> {
    tensor.on(queue).unwrap().location()
}

fn main() {}
