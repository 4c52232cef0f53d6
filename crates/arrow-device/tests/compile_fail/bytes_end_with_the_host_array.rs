use arrow_device::{Array, HostBytes};

fn bytes(array: &Array) -> HostBytes<'_> {
    array.host().unwrap().buffer(1).unwrap()
}

fn main() {}
