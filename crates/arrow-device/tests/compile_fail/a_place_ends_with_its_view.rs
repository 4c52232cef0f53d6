use arrow_device::{Array, BufferPlace, Queue};

fn place<'a>(array: &'a Array, queue: &'a Queue) -> BufferPlace<'a> {
    array.on(queue).unwrap().buffer(1)
}

fn main() {}
