//! Tensors through DLPack: export, import, there and back, and what lies between them and arrays.
//!
//! All peers share the same numbers, behind one counted owner. A tensor that is exported is one
//! that the peer has already; a tensor that is imported was exported here, for all of them. What an
//! import gives is checked, and can be asked for shape and type. It is not the same everywhere:
//! dlpark keeps the C struct and looks at it again whenever it is asked, Arrow C++ makes a tensor
//! of its own, and this library one that can be shared, put on a queue and handed on.

#[cfg(feature = "peers")]
mod arrow_cpp;
#[cfg(feature = "peers")]
mod dlpark;
mod ours;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::dlpack::{CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{Array, Buffer, DataType};

use crate::case::{Case, WorkloadKey};
pub(super) use ours::COUNTED;

/// The form that all of them hand over.
type Form = DLManagedTensorVersioned;

/// How many numbers there are.
const COUNT: i64 = 4096;

pub(super) fn cases() -> Vec<Case> {
    #[allow(unused_mut, reason = "the peers are not always there")]
    let mut cases = ours::cases();
    #[cfg(feature = "peers")]
    cases.extend(dlpark::cases().into_iter().chain(arrow_cpp::cases()));
    cases
}

const FLAT: &str = "one dimension";
const DEEP: &str = "four dimensions";

fn named(workload: &'static str, shape: &'static str) -> WorkloadKey {
    (workload, shape, 1)
}

/// The shape of such a tensor.
fn dimensions(shape: &str) -> Vec<i64> {
    if shape == FLAT { vec![COUNT] } else { vec![4, 8, 16, COUNT / 512] }
}

fn numbers() -> Vec<i64> {
    (0..COUNT).collect()
}

/// A tensor of ours.
fn tensor(shape: &str) -> Tensor {
    let numbers = Buffer::from(numbers());
    Tensor::from_buffer(numbers, Dtype::INT64, &dimensions(shape)).unwrap()
}

/// The same numbers as an array.
fn array() -> Array {
    let len = COUNT as usize;
    let buffers = [None, Some(Buffer::from(numbers()))];
    Array::builder(DataType::Int64).len(len).buffers(buffers).finish_ready().unwrap()
}

/// What everybody's import is given.
fn handed_over(tensor: &Tensor) -> Managed<Form> {
    tensor.clone().export(Order::Host, CopyPolicy::Never).unwrap()
}

/// Everybody's outcome is the same: shape and numbers.
#[cfg(all(test, feature = "peers"))]
fn check(managed: Managed<Form>, shape: &str) {
    // SAFETY: a tensor that was just handed over, of memory that nobody writes to.
    let tensor = unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap();
    assert_eq!((tensor.shape(), tensor.dtype()), (&dimensions(shape)[..], Dtype::INT64));
    assert_eq!(tensor.host().unwrap().to_vec::<i64>().unwrap(), numbers());
}
