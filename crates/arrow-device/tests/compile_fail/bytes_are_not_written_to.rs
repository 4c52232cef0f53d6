use arrow_device::HostArray;

fn change(array: &HostArray) {
    array.buffer(1).unwrap()[0] = 7;
}

fn main() {}
