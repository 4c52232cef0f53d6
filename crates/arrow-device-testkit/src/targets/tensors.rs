//! A tensor of DLPack with anything in its fields.

use std::ffi::c_void;

use arrow_device::abi::dlpack::{
    DLDataType, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
};
use arrow_device::dlpack::{Conversion, CopyPolicy, Nulls, Order, Tensor};

use crate::tensors::{Recipe, TestForm, free_without_deleter};

/// Imports a tensor whose fields are made of these bytes in both forms, and puts it through every
/// conversion. Panics where something is wrong. For fuzzing.
///
/// The contract of import that binds the producer is kept: pointers that are not null point to as
/// much memory as the fields say, as far as possible, and to nothing on devices that the host does
/// not read.
///
/// # Panics
/// Panics on a finding.
pub fn tensors(bytes: &[u8]) {
    let mut input = Input(bytes);
    let recipe = input.recipe();
    through::<DLManagedTensorVersioned>(&recipe, &mut input);
    through::<DLManagedTensor>(&recipe, &mut input);
}

fn through<F: TestForm>(recipe: &Recipe, input: &mut Input<'_>) {
    let (made, deletions) = recipe.make::<F>();
    let imported = unsafe { Tensor::import(made, Order::Host) };
    match imported {
        Ok(tensor) => {
            use_tensor(&tensor, input);
            drop(tensor);
        }
        Err(error) => assert!(!error.message().is_empty()),
    }
    if recipe.has_deleter {
        assert!(deletions.reaches(1), "deleted {} times: {recipe:?}", deletions.get());
    } else {
        unsafe { free_without_deleter(made) };
    }
}

fn use_tensor(tensor: &Tensor, input: &mut Input<'_>) {
    assert_eq!(tensor.shape().len(), tensor.strides().len());
    let _ = tensor.is_compact();
    if tensor.device() != arrow_device::DeviceId::CPU || tensor.len() > 1 << 16 {
        return;
    }
    let copying =
        [CopyPolicy::Never, CopyPolicy::IfNeeded, CopyPolicy::Always][input.byte() as usize % 3];
    let flags = input.byte();
    let conversion = Conversion::new()
        .copying(copying)
        .nulls(Nulls::NaN)
        .as_integers(flags & 1 != 0)
        .pack_bools(flags & 2 != 0)
        .as_lists(flags & 4 != 0);
    let bytes = tensor.host().map(|host| host.to_bytes().unwrap());
    let copy = tensor.copy(&arrow_device::Queue::host()).unwrap();
    let copied = copy.host().unwrap().to_bytes().unwrap();
    if let Ok(bytes) = bytes {
        assert_eq!(bytes, copied);
    }
    if let Ok(array) = tensor.to_array(&conversion) {
        array.validate().unwrap();
        if let Ok(again) = array.to_tensor(&conversion) {
            let is_bool = tensor.dtype() == arrow_device::dlpack::Dtype::BOOL;
            let same = again.host().unwrap().to_bytes().unwrap();
            assert!(is_bool || same == copied, "{tensor:?} came back as {again:?}");
        }
    }
    let names: Vec<String> = tensor
        .shape()
        .get(1)
        .into_iter()
        .flat_map(|k| 0..(*k).min(if cfg!(miri) { 3 } else { 100 }))
        .map(|i| i.to_string())
        .collect();
    let _ = tensor.to_batch(&names, &conversion);
    let exported = tensor.clone().export::<DLManagedTensorVersioned>(Order::Host, copying);
    if let Ok(exported) = exported {
        let again = unsafe { Tensor::import(exported.into_raw(), Order::Host) }.unwrap();
        assert_eq!(again.shape(), tensor.shape());
    }
    let _ = copy.export::<DLManagedTensor>(Order::Host, CopyPolicy::Never).unwrap();
}

/// Bytes that are used up. Zeros follow.
struct Input<'bytes>(&'bytes [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> i64 {
        let small = i64::from(self.byte().cast_signed());
        match small {
            -128 => i64::MIN,
            127 => i64::MAX,
            100..127 => 1 << (small - 70),
            -127..-100 => -(1 << (-small - 70)),
            _ => small % 9,
        }
    }

    fn recipe(&mut self) -> Recipe {
        let mut it = Recipe::default();
        let ndim = usize::from(self.byte() % 70);
        let ndim = if ndim > 60 { ndim } else { ndim % 5 };
        it.shape = (self.byte() != 255).then(|| (0..ndim).map(|_| self.number()).collect());
        it.strides =
            (!self.byte().is_multiple_of(3)).then(|| (0..ndim).map(|_| self.number()).collect());
        it.ndim = match self.byte() {
            255 => Some(-1),
            254 => Some(i32::MAX),
            253 if it.shape.is_none() => Some(3),
            _ => Some(ndim as i32),
        };
        let bits = [8, 16, 32, 64, 128, 4, 6, 0, 1, 12, 255][usize::from(self.byte()) % 11];
        it.dtype = DLDataType { code: self.byte() % 20, bits, lanes: u16::from(self.byte() % 3) };
        if self.byte().is_multiple_of(2) {
            it.dtype = DLDataType { code: 0, bits: 32, lanes: 1 };
        }
        it.flags = u64::from(self.byte() % 8);
        it.version.major = if self.byte() > 200 { u32::from(self.byte()) } else { 1 };
        it.has_deleter = self.byte() % 8 != 7;
        let device = self.byte();
        if device > 200 {
            it.device.device_type = DLDeviceType(i32::from(device) - 220);
            it.device.device_id = self.number() as i32;
        }
        it.byte_offset = self.byte_offset();
        self.provide(&mut it);
        it
    }

    fn byte_offset(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => 1 << 63,
            other => u64::from(other) % 64,
        }
    }

    /// Provides data for everything that the fields name, if it is not too much: a window in the
    /// middle of enough memory. If it is too much, names a device that the host does not read.
    fn provide(&mut self, it: &mut Recipe) {
        if self.byte() == 255 {
            it.bytes = None;
            return;
        }
        const HALF: i128 = if cfg!(miri) { 1 << 8 } else { 1 << 14 };
        let shape = it.shape.clone().unwrap_or_default();
        let strides = it.strides.clone().unwrap_or_else(|| {
            let mut next = 1_i64;
            let mut strides: Vec<i64> = shape
                .iter()
                .rev()
                .map(|length| {
                    let stride = next;
                    next = next.saturating_mul((*length).max(1));
                    stride
                })
                .collect();
            strides.reverse();
            strides
        });
        let reach: i128 = shape
            .iter()
            .zip(&strides)
            .map(|(length, stride)| (i128::from(*length) - 1).max(0) * i128::from(*stride).abs())
            .fold(0, i128::saturating_add);
        let width = i128::from(it.dtype.bits).max(8) * i128::from(it.dtype.lanes).max(1) / 8 + 1;
        let needed = reach.saturating_add(1).saturating_mul(width).saturating_add(64);
        let is_odd = it.byte_offset >= 64 || shape.iter().any(|length| *length < 0) || reach < 0;
        if needed < HALF && !is_odd {
            it.byte_offset += HALF as u64;
            it.bytes =
                Some((0..2 * HALF).map(|byte| byte as u8 ^ self.0.first().unwrap_or(&0)).collect());
        } else if it.device.device_type.0 == 1 {
            it.device.device_type = DLDeviceType(2);
            it.device.device_id = 0;
            it.data = Some(std::ptr::without_provenance_mut::<c_void>(1 << 20));
        }
    }
}
