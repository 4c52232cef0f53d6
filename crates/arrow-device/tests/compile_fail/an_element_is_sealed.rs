use arrow_device::dlpack::{Dtype, Element, HostTensor};
use arrow_device::Plain;

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Wide([u64; 8]);

// SAFETY: every pattern of 64 bytes is a value, and the type has no padding.
unsafe impl Plain for Wide {}

impl Element for Wide {
    const DTYPE: Dtype = Dtype::UINT8;
}

fn read(host: &HostTensor) -> arrow_device::Result<Vec<Wide>> {
    host.to_vec()
}

fn main() {}
