//! By `dlpark`, with shapes of a fixed number of dimensions, which is its fastest way.

use std::sync::Arc;

use dlpark::ffi::{DLDevice, DLManagedTensorVersioned};
use dlpark::metadata::Fixed;
use dlpark::{DlpackElement, DlpackFlags, versioned};

use super::{DEEP, FLAT, Form, dimensions, handed_over, named, numbers, tensor};
use crate::case::{Case, Peer};
use arrow_device::dlpack::Managed;

pub(super) fn cases() -> Vec<Case> {
    [of::<1>(FLAT), of::<4>(DEEP)].into_iter().flatten().collect()
}

fn of<const N: usize>(shape: &'static str) -> [Case; 3] {
    let owner = Arc::new(numbers());
    let exporter = Exporter::<N>::new(shape, &owner);
    let export = move |()| exporter.export();
    let source = tensor(shape);
    let before = move || handed_over(&source);
    let exporter = Exporter::<N>::new(shape, &owner);
    let there_and_back = move || drop(import(from_dlpark(exporter.export())));
    [
        Case::step(named("tensor export", shape), Peer::Dlpark, || (), export, drop),
        Case::step(named("tensor import", shape), Peer::Dlpark, before, import, drop),
        Case::whole(named("tensor round trip", shape), Peer::Dlpark, there_and_back),
    ]
}

/// Numbers with their shape, as an owner of them has them.
struct Exporter<const N: usize> {
    shape: [i64; N],
    strides: [i64; N],
    owner: Arc<Vec<i64>>,
}

impl<const N: usize> Exporter<N> {
    fn new(shape: &str, owner: &Arc<Vec<i64>>) -> Self {
        let shape: [i64; N] = dimensions(shape).try_into().unwrap();
        let strides = dlpark::tensor::compact_strides_array(shape).unwrap();
        Self { shape, strides, owner: owner.clone() }
    }

    fn export(&self) -> versioned::Dlpack {
        let fixed = Fixed::new(&self.shape, &self.strides);
        let prepared = fixed.prepare_as::<DLManagedTensorVersioned>().unwrap();
        let mut made = prepared.initialize(self.owner.clone());
        made.set_data(self.owner.as_ptr().cast_mut().cast());
        made.set_dtype(i64::DTYPE);
        made.set_device(DLDevice::CPU);
        made.set_flags(DlpackFlags::READ_ONLY).unwrap();
        // SAFETY: shape, strides, type, device and flags are those of the numbers, and the context
        // owns them.
        unsafe { made.finish() }
    }
}

/// Takes a tensor over and checks it. What was learnt has to be asked for again.
fn import(managed: Managed<Form>) -> versioned::Dlpack {
    let raw = managed.into_raw().cast::<DLManagedTensorVersioned>();
    // SAFETY: a tensor that was just handed over; both types are the C struct's.
    let theirs: versioned::Dlpack = unsafe { dlpark::Managed::from_raw(raw) }.unwrap();
    std::hint::black_box(theirs.validate().unwrap().num_bytes());
    theirs
}

fn from_dlpark(made: versioned::Dlpack) -> Managed<Form> {
    // SAFETY: a tensor that was just made; both types are the C struct's.
    unsafe { Managed::from_raw(made.into_raw().cast()) }.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_tensors_are_the_same_numbers_and_are_let_go() {
        let owner = Arc::new(numbers());
        super::super::check(from_dlpark(Exporter::<1>::new(FLAT, &owner).export()), FLAT);
        super::super::check(from_dlpark(Exporter::<4>::new(DEEP, &owner).export()), DEEP);
        let taken = import(handed_over(&tensor(DEEP)));
        assert_eq!(taken.validate().unwrap().shape(), dimensions(DEEP));
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
