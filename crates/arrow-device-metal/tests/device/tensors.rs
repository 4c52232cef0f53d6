//! Tensors as torch and MLX exchange them: `data` is a `MTLBuffer`, and 0 is the default device.

use arrow_device::abi::dlpack::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor, dl_device};
use arrow_device::{Array, DataType, DeviceId, DeviceType, ErrorKind};
use arrow_device_metal::buffer_of;
use metal_stand_in::Id;

use crate::support::Bench;

/// Three numbers of 32 bits, 8 bytes behind the beginning of this object.
fn tensor_at(data: Id, shape: &mut [i64; 1], strides: &mut [i64; 1]) -> DLManagedTensorVersioned {
    DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: std::ptr::null_mut(),
        deleter: None,
        flags: 0,
        dl_tensor: DLTensor {
            data,
            device: DLDevice { device_type: DLDeviceType(DeviceType::METAL.0), device_id: 0 },
            ndim: 1,
            dtype: DLDataType { code: 0, bits: 32, lanes: 1 },
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 8,
        },
    }
}

/// The three numbers of a tensor that names a buffer of this crate.
fn numbers_of(managed: Managed<DLManagedTensorVersioned>) -> [i32; 3] {
    let managed = managed.into_raw();
    let raw = unsafe { &(*managed).dl_tensor };
    let application = metal_stand_in::StandIn::load().unwrap().application();
    let contents: *const u8 = unsafe { application.send(raw.data, "contents") };
    let first = contents.wrapping_add(raw.byte_offset as usize);
    assert!(buffer_of(first.cast()).is_some_and(|(buffer, _)| buffer.as_ptr() == raw.data));
    let numbers = unsafe { first.cast::<[i32; 3]>().read_unaligned() };
    drop(unsafe { Managed::from_raw(managed) }.unwrap());
    numbers
}

// Requirement: DLP-1, DLP-5
#[test]
fn a_tensor_in_a_buffer_of_another_library_is_used_in_place() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let queue = bench.open_queue().unwrap();
    let device = application.default_device();
    let make = |options: usize| -> Id {
        unsafe { application.send_2(device, "newBufferWithLength:options:", 64_usize, options) }
    };
    let (buffer, private) = (make(0), make(0x20));
    let contents: *mut i32 = unsafe { application.send(buffer, "contents") };
    for (place, value) in [(2, 7), (3, 8), (4, 9)] {
        unsafe { contents.add(place).write(value) };
    }
    let (mut shape, mut strides) = ([3], [1]);
    let mut raw = tensor_at(buffer, &mut shape, &mut strides);
    let tensor = unsafe { Tensor::import(&raw mut raw, Order::Host) }.unwrap();
    assert_eq!(tensor.device(), DeviceId::new(DeviceType::METAL, -1));
    let view = tensor.on(&queue).unwrap();
    assert_eq!(view.location().address(), contents.wrapping_add(2).cast_const().cast());
    drop(view);
    let copied = tensor.copy_to_host(&queue).unwrap().host().unwrap().to_bytes().unwrap();
    assert_eq!(copied, [7_i32, 8, 9].map(i32::to_ne_bytes).concat());
    // The buffer is not one of ours, which a consumer could be given.
    let refused = tensor.clone().export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    let copied = tensor.clone().export(Order::Host, CopyPolicy::IfNeeded).unwrap();
    assert_eq!(numbers_of(copied), [7, 8, 9]);
    let copied = tensor.clone().export(Order::On(&queue), CopyPolicy::IfNeeded).unwrap();
    queue.synchronize().unwrap();
    assert_eq!(numbers_of(copied), [7, 8, 9]);
    drop(tensor);
    for (what, object) in [("private storage", private), ("no buffer", device)] {
        let mut raw = tensor_at(object, &mut shape, &mut strides);
        let refused = unsafe { Tensor::import(&raw mut raw, Order::Host) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{what}: {refused}");
    }
    for object in [buffer, private, device] {
        unsafe { application.release(object) };
    }
}

// Requirement: DLP-1
#[test]
fn an_exported_tensor_names_the_buffer_and_the_place_in_it() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let array = Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap();
    let there = array.copy_to(&queue).unwrap().slice(5, 90).unwrap();
    let tensor = there.to_tensor(&Conversion::new()).unwrap();
    let view = tensor.on(&queue).unwrap();
    let address = view.location().address();
    drop(view);
    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::Host, CopyPolicy::IfNeeded).unwrap();
    let managed = managed.into_raw();
    let raw = unsafe { &(*managed).dl_tensor };
    let (buffer, offset) = buffer_of(address).unwrap();
    assert!(offset > 0);
    assert_eq!((raw.data, raw.byte_offset), (buffer.as_ptr(), offset));
    assert_eq!((raw.device.device_type.0, raw.device.device_id), (DeviceType::METAL.0, 0));
    drop(unsafe { Managed::from_raw(managed) }.unwrap());
    assert_eq!(dl_device(DeviceId::new(DeviceType::METAL, -1)).unwrap().device_id, 0);
    let second = arrow_device_metal::open(1).unwrap();
    let number = dl_device(second.id()).unwrap();
    assert!(number.device_id >= 1 << 30);
    assert_eq!(arrow_device::dlpack::device_id(number).unwrap(), second.id());
}
