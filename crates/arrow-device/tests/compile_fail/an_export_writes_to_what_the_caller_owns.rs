use arrow_device::Array;
use arrow_device::abi::ArrowDeviceArray;

fn export(array: &Array, out: &ArrowDeviceArray) {
    array.export(out).unwrap();
}

fn main() {}
