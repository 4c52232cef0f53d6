use arrow_device::{Array, ArrayStream, Result};

fn take(stream: &ArrayStream) -> Option<Result<Array>> {
    stream.next()
}

fn main() {}
