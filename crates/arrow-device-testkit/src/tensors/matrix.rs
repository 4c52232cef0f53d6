//! Sends every type of element in every layout through both forms, to any device and back.

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{self, Conversion, CopyPolicy, Dtype, Form, Managed, Order, Tensor};
use arrow_device::{Buffer, Memory, Queue};

use super::{Count, Counted};

/// All types of the Array API, the small types of machine learning, and vectors.
pub const DTYPES: [Dtype; 20] = [
    Dtype::BOOL,
    Dtype::INT8,
    Dtype::INT16,
    Dtype::INT32,
    Dtype::INT64,
    Dtype::UINT8,
    Dtype::UINT16,
    Dtype::UINT32,
    Dtype::UINT64,
    Dtype::FLOAT16,
    Dtype::FLOAT32,
    Dtype::FLOAT64,
    Dtype::BFLOAT16,
    Dtype::COMPLEX32,
    Dtype::COMPLEX64,
    Dtype::COMPLEX128,
    // float8_e4m3fn, float8_e5m2, two float4_e2m1fn, and a vector of four float32.
    Dtype::new(10, 8, 1),
    Dtype::new(12, 8, 1),
    Dtype::new(17, 4, 2),
    Dtype::new(2, 32, 4),
];

/// A way to look at a tensor of 4 by 6.
pub type Layout = (&'static str, fn(&Tensor) -> Tensor);

/// All layouts.
pub const LAYOUTS: [Layout; 9] = [
    ("contiguous", |all| all.clone()),
    ("sliced", |all| all.sliced(0, 1, 2, 1).unwrap()),
    ("strided", |all| all.sliced(1, 1, 3, 2).unwrap()),
    ("backwards", |all| all.sliced(1, 5, 6, -1).unwrap()),
    ("permuted", |all| all.permuted(&[1, 0]).unwrap()),
    ("one column", |all| all.sliced(1, 2, 1, 1).unwrap()),
    ("a number", |all| number(&all.sliced(0, 3, 1, 1).unwrap().sliced(1, 4, 1, 1).unwrap())),
    ("empty", |all| all.sliced(0, 0, 0, 1).unwrap()),
    ("read-only", |all| all.clone()),
];

/// Makes a tensor without dimensions of a tensor with one element. Only C can make such tensors.
fn number(one: &Tensor) -> Tensor {
    let managed: Managed<DLManagedTensorVersioned> =
        one.clone().export(Order::Unordered, CopyPolicy::Never).unwrap();
    let raw = managed.into_raw();
    // The shape stays in memory, for the deleter.
    unsafe { (*raw).dl_tensor.ndim = 0 };
    unsafe { Tensor::import(raw, Order::Unordered) }.unwrap()
}

/// Returns the bytes of 24 elements. Booleans are 0 and 1.
pub fn contents(dtype: Dtype) -> Vec<u8> {
    let width = dtype.byte_width().unwrap() as usize;
    let byte = |place: usize| (place * 37 + 11) as u8;
    (0..24 * width)
        .map(|place| if dtype == Dtype::BOOL { byte(place) & 1 } else { byte(place) })
        .collect()
}

/// Makes a tensor of 4 by 6 on the device of a queue. `freed` counts when its memory is freed.
pub fn upload(queue: &Queue, dtype: Dtype, freed: &Count) -> Tensor {
    let bytes = contents(dtype);
    let mut memory: Memory = queue.allocate(bytes.len() as u64).unwrap();
    memory.write(queue, &bytes).unwrap();
    let raw = memory.spot(queue).unwrap().base.as_ptr();
    let len = memory.len();
    let owner = Counted(memory, freed.clone());
    let buffer = unsafe { Buffer::foreign(queue.device().id(), raw, len, owner) };
    Tensor::from_buffer(buffer, dtype, &[4, 6]).unwrap()
}

/// Runs all layouts of these types on the device of a queue. Returns the number of cases.
pub fn run(queue: &Queue, dtypes: &[Dtype]) -> usize {
    let mut cases = 0;
    for dtype in dtypes {
        for (layout, view) in LAYOUTS {
            let name = format!("{dtype}, {layout}, on {}", queue.device().id());
            let freed = Count::default();
            let tensor = view(&upload(queue, *dtype, &freed));
            round_trip::<DLManagedTensorVersioned>(&tensor, queue, &name);
            round_trip::<DLManagedTensor>(&tensor, queue, &name);
            through_an_array(&tensor, queue, &name);
            drop(tensor);
            assert!(freed.reaches(1), "{name}: freed {} times", freed.get());
            cases += 2;
        }
    }
    cases
}

fn bytes(tensor: &Tensor, queue: &Queue) -> Vec<u8> {
    tensor.copy_to_host(queue).unwrap().host().unwrap().to_bytes().unwrap()
}

fn round_trip<F: Form>(tensor: &Tensor, queue: &Queue, name: &str) {
    let order = Order::On(queue);
    let managed: Managed<F> = tensor.clone().export(order, CopyPolicy::IfNeeded).unwrap();
    let again = unsafe { Tensor::import(managed.into_raw(), order) }.unwrap();
    assert_eq!(again.shape(), tensor.shape(), "{name}");
    assert_eq!((again.dtype(), again.len()), (tensor.dtype(), tensor.len()), "{name}");
    // In DLPack all memory of the host has number 0.
    let device = dlpack::dl_device(queue.device().id()).and_then(dlpack::device_id).unwrap();
    assert_eq!(again.device(), device, "{name}");
    assert_eq!(bytes(&again, queue), bytes(tensor, queue), "{name}");
    // A compact copy has the same elements too.
    let copy = again.copy(queue).unwrap();
    assert!(copy.is_compact(), "{name}");
    assert_eq!(bytes(&copy, queue), bytes(tensor, queue), "{name}");
}

/// Converts a tensor that Arrow can hold to an array and back.
fn through_an_array(tensor: &Tensor, queue: &Queue, name: &str) {
    let conversion = Conversion::new().copying(CopyPolicy::IfNeeded).as_integers(true).on(queue);
    let array = match tensor.to_array(&conversion) {
        Ok(array) => array,
        Err(error) => {
            assert_eq!(error.kind(), arrow_device::ErrorKind::Unsupported, "{name}: {error}");
            assert_eq!(tensor.dtype().byte_width(), Some(16), "{name}: {error}");
            return;
        }
    };
    let again = array.to_tensor(&conversion).unwrap();
    let expected = if tensor.shape().is_empty() { &[1] } else { tensor.shape() };
    assert_eq!(again.shape(), expected, "{name}");
    assert_eq!(bytes(&again, queue), bytes(tensor, queue), "{name}");
}
