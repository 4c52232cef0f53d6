use arrow_device::Buffer;
use arrow_device::dlpack::{Dtype, Element, HostTensor, Tensor};

fn read<T: Element>(host: &HostTensor) -> arrow_device::Result<Vec<T>> {
    host.to_vec()
}

fn main() {
    let buffer = Buffer::from(vec![1_u8, 2, 3]);
    let tensor = Tensor::from_buffer(buffer, Dtype::UINT8, &[3]).unwrap();
    assert_eq!(read::<u8>(&tensor.host().unwrap()).unwrap(), [1, 2, 3]);
}
