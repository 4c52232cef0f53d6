use arrow_device::abi::dlpack::DLManagedTensor;
use arrow_device::dlpack::{Order, Tensor};

fn import(tensor: *mut DLManagedTensor) {
    Tensor::import(tensor, Order::Host).unwrap_err();
}

fn main() {}
