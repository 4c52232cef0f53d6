use arrow_device::Array;

fn use_bytes(array: &Array) -> u8 {
    array.bytes(1)[0]
}

fn main() {}
