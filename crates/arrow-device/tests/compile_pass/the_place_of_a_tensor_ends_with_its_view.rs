use arrow_device::dlpack::{Dtype, Tensor, TensorView};
use arrow_device::{Location, Queue};

fn place<'view>(view: &'view TensorView) -> Location<'view> {
    view.location()
}

fn main() {
    let tensor = Tensor::from_buffer(vec![1_u8].into(), Dtype::UINT8, &[1]).unwrap();
    place(&tensor.on(&Queue::host()).unwrap());
}
