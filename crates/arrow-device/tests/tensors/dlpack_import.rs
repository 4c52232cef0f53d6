//! Taking tensors over: what is wrong is refused and deleted once, what is odd is understood.

use arrow_device_testkit::tensors;

use arrow_device::abi::dlpack::{DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{DeviceId, DeviceType, ErrorKind, Queue};
use tensors::hostile::{ACCEPTED, REFUSED, REFUSED_VERSIONED};
use tensors::{Recipe, TestForm, free_without_deleter, matrix};

fn refuse<F: TestForm>(what: &str, kind: ErrorKind, spoil: fn(&mut Recipe)) {
    let mut recipe = Recipe::default();
    spoil(&mut recipe);
    let (made, deletions) = recipe.make::<F>();
    let error = unsafe { Tensor::import(made, Order::Host) }.expect_err(what);
    assert_eq!(error.kind(), kind, "{what}: {error}");
    assert_eq!(deletions.get(), 1, "{what}");
    assert_eq!(error.operation(), Some("import"), "{what}");
}

// Requirement: DLP-1, DLP-11, SAF-14, SAF-32
#[test]
fn every_field_that_is_wrong_is_refused_and_deleted_once() {
    for (what, kind, spoil) in REFUSED {
        refuse::<DLManagedTensorVersioned>(what, *kind, *spoil);
        refuse::<DLManagedTensor>(what, *kind, *spoil);
    }
    for (what, kind, spoil) in REFUSED_VERSIONED {
        refuse::<DLManagedTensorVersioned>(what, *kind, *spoil);
    }
}

// Requirement: DLP-1, DLP-7
#[test]
fn what_is_odd_and_right_is_read() {
    for (what, change, shape, elements) in ACCEPTED {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
        let tensor = unsafe { Tensor::import(made, Order::Host) }.expect(what);
        read(what, tensor, shape, elements);
        assert!(deletions.reaches(1), "{what}: deleted {} times", deletions.get());

        let (made, deletions) = recipe.make::<DLManagedTensor>();
        let tensor = unsafe { Tensor::import(made, Order::Host) }.expect(what);
        read(what, unsafe { tensor.assume_frozen() }, shape, elements);
        assert!(deletions.reaches(1), "{what}: deleted {} times", deletions.get());
    }
}

fn read(what: &str, tensor: Tensor, shape: &[i64], elements: &[i32]) {
    assert_eq!(tensor.shape(), shape, "{what}");
    assert_eq!(tensor.host().unwrap().to_vec::<i32>().unwrap(), elements, "{what}");
    let copy = tensor.copy(&Queue::host()).unwrap();
    assert_eq!(copy.host().unwrap().to_vec::<i32>().unwrap(), elements, "{what}");
    let conversion = Conversion::new().copying(CopyPolicy::IfNeeded);
    if shape != [0, i64::MAX] {
        let again = tensor.to_array(&conversion).unwrap().to_tensor(&conversion).unwrap();
        assert_eq!(again.host().unwrap().to_vec::<i32>().unwrap(), elements, "{what}");
    }
}

#[test]
fn what_a_producer_does_to_its_struct_after_the_import_changes_nothing() {
    let shapes: [&[i64]; 6] = [&[6], &[2, 3], &[1, 2, 3], &[3, 1, 2, 1], &[1, 1, 3, 1, 2], &[5]];
    for shape in shapes {
        let strides = (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect();
        let (count, ndim) = (shape.iter().product::<i64>() as i32, shape.len());
        let (shape, strides) = (Some(shape.to_vec()), Some(strides));
        let recipe = Recipe { shape, strides, ..Recipe::default() };
        // The second import finds the memory that the first one left.
        for _ in 0..2 {
            let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
            let tensor = unsafe { Tensor::import(made, Order::Host) }.unwrap();
            // As where its own tensor keeps them.
            let theirs = unsafe { &raw mut (*made).dl_tensor };
            let (lengths, distances) = unsafe { ((*theirs).shape, (*theirs).strides) };
            for axis in 0..ndim {
                unsafe { lengths.add(axis).write(1000) };
                unsafe { distances.add(axis).write(-1) };
            }
            unsafe { (*theirs).byte_offset = 1 << 20 };
            assert_eq!(Some(tensor.shape()), recipe.shape.as_deref());
            assert_eq!(Some(tensor.strides()), recipe.strides.as_deref());
            let numbers = tensor.host().unwrap().to_vec::<i32>().unwrap();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
            drop(tensor);
            assert!(deletions.reaches(1));
        }
    }
}

#[test]
fn a_null_pointer_is_refused() {
    let null = std::ptr::null_mut::<DLManagedTensor>();
    let error = unsafe { Tensor::import(null, Order::Host) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_deleter_may_be_missing() {
    let recipe = Recipe { has_deleter: false, ..Recipe::default() };
    let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
    let tensor = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    assert_eq!(tensor.host().unwrap().to_vec::<i32>().unwrap()[5], 5);
    drop(tensor);
    assert_eq!(deletions.get(), 0);
    unsafe { free_without_deleter(made) };
}

// Requirement: DLP-10, SAF-15
#[test]
fn the_deleter_runs_after_the_last_share_on_whatever_thread_that_is() {
    let (made, deletions) = Recipe::default().make::<DLManagedTensorVersioned>();
    let tensor = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    let host = tensor.host().unwrap();
    let array = tensor.to_array(&Conversion::new()).unwrap();
    let part = array.slice(1, 1).unwrap();
    drop((tensor, array));
    let thread = std::thread::spawn(move || {
        assert_eq!(host.to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]);
    });
    thread.join().unwrap();
    assert_eq!(deletions.get(), 0, "a slice of the array is left");
    std::thread::spawn(move || drop(part)).join().unwrap();
    assert!(deletions.reaches(1));
}

// Requirement: DLP-6
#[test]
fn a_tensor_that_nobody_takes_is_deleted() {
    let (made, deletions) = Recipe::default().make::<DLManagedTensor>();
    let managed = unsafe { Managed::from_raw(made) }.unwrap();
    assert!(managed.version().is_none());
    drop(managed);
    assert_eq!(deletions.get(), 1);
}

// Requirement: DLP-12
#[test]
fn memory_that_its_producer_may_write_to_is_not_shared_as_immutable() {
    for (flags, is_frozen) in [(0, false), (1, true), (2, true), (3, true)] {
        let recipe = Recipe { flags, ..Recipe::default() };
        let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
        let tensor = unsafe { Tensor::import(made, Order::Host) }.unwrap();
        assert_eq!(tensor.is_frozen(), is_frozen, "flags {flags}");
        let shared = tensor.to_array(&Conversion::new());
        let read = tensor.host();
        assert_eq!((shared.is_ok(), read.is_ok()), (is_frozen, is_frozen), "flags {flags}");
        if let Err(error) = &shared {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        drop(shared);
        let copied = tensor.to_array(&Conversion::new().copying(CopyPolicy::IfNeeded)).unwrap();
        let promised = unsafe { tensor.assume_frozen() };
        assert_eq!(promised.host().unwrap().to_vec::<i32>().unwrap().len(), 6);
        drop((promised, read));
        if !is_frozen {
            assert!(deletions.reaches(1), "the copy keeps nothing");
        }
        drop(copied);
        assert!(deletions.reaches(1));
    }
}

// Requirement: DLP-9
#[test]
fn a_tensor_on_a_device_that_is_not_there_is_carried_and_its_use_is_an_error_that_names_it() {
    // The Arrow specification does not list the last three.
    for (device_type, name) in
        [(2, "cuda:7"), (17, "maia:7"), (18, "trainium:7"), (4711, "device_type(4711):7")]
    {
        carry(device_type, name);
    }
}

fn carry(device_type: i32, name: &str) {
    let mut recipe = Recipe { bytes: None, ..Recipe::default() };
    recipe.device.device_type = DLDeviceType(device_type);
    recipe.device.device_id = 7;
    recipe.data = Some(std::ptr::without_provenance_mut(1 << 12));
    let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
    let tensor = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    assert_eq!(tensor.device(), DeviceId::new(DeviceType(device_type), 7));
    let error = tensor.host().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing);
    assert!(error.to_string().contains(name), "{error}");
    let error = tensor.on(&Queue::host()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable);
    assert!(error.to_string().contains(name), "{error}");

    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::Host, CopyPolicy::Never).unwrap();
    let whole = unsafe { managed.as_ptr().read() };
    assert_eq!(whole.dl_tensor.data.addr(), 1 << 12);
    let device = whole.dl_tensor.device;
    assert_eq!((device.device_type.0, device.device_id, whole.flags), (device_type, 7, 1));
    drop(managed);
    assert!(deletions.reaches(1));

    // A queue that does not reach the memory cannot be what the producer made wait.
    let (made, deletions) = recipe.make::<DLManagedTensorVersioned>();
    let error = unsafe { Tensor::import(made, Order::On(&Queue::host())) }.unwrap_err();
    assert_eq!((error.kind(), deletions.get()), (ErrorKind::NotReachable, 1));
}

// Requirement: DLP-4
#[test]
fn every_type_comes_back_in_every_layout_through_host_memory() {
    let dtypes: &[Dtype] = if cfg!(miri) { &matrix::DTYPES[2..3] } else { &matrix::DTYPES };
    let cases = matrix::run(&Queue::host(), dtypes);
    assert_eq!(cases, dtypes.len() * matrix::LAYOUTS.len() * 2);
}

#[test]
fn elements_of_less_than_a_byte_are_carried() {
    // jax packs two float4 in a byte, torch calls the byte an element of two lanes.
    let mut recipe = Recipe { bytes: Some(vec![0x21, 0x43, 0x05]), ..Recipe::default() };
    recipe.dtype = arrow_device::abi::dlpack::DLDataType { code: 17, bits: 4, lanes: 1 };
    recipe.shape = Some(vec![5]);
    recipe.strides = Some(vec![1]);
    let (made, _) = recipe.make::<DLManagedTensorVersioned>();
    let packed = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    assert_eq!(packed.host().unwrap().to_bytes().unwrap(), [0x21, 0x43, 0x05]);
    assert_eq!(packed.sliced(0, 1, 2, 1).unwrap_err().kind(), ErrorKind::Unsupported);
    let all = Conversion::new().copying(CopyPolicy::IfNeeded).as_integers(true);
    assert_eq!(packed.to_array(&all).unwrap_err().kind(), ErrorKind::Unsupported);

    recipe.flags = 1 | 4;
    recipe.bytes = Some(vec![1, 2, 3, 4, 5]);
    recipe.strides = None;
    let (made, _) = recipe.make::<DLManagedTensorVersioned>();
    let padded = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    assert!(padded.is_padded());
    let part = padded.sliced(0, 1, 3, 1).unwrap();
    assert_eq!(part.host().unwrap().to_bytes().unwrap(), [2, 3, 4]);
    let managed: Managed<DLManagedTensorVersioned> =
        part.copy(&Queue::host()).unwrap().export(Order::Host, CopyPolicy::Never).unwrap();
    assert_eq!(unsafe { managed.as_ptr().read() }.flags, 2 | 4);

    // The flag says nothing of elements that take a byte.
    let mut bytes = recipe.clone();
    bytes.dtype = arrow_device::abi::dlpack::DLDataType { code: 0, bits: 8, lanes: 1 };
    let (made, _) = bytes.make::<DLManagedTensorVersioned>();
    let whole = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    assert!(!whole.is_padded());
    let managed: Managed<DLManagedTensorVersioned> =
        whole.copy(&Queue::host()).unwrap().export(Order::Host, CopyPolicy::Never).unwrap();
    assert_eq!(unsafe { managed.as_ptr().read() }.flags, 2);

    // Two in an element take two bytes.
    recipe.dtype.lanes = 2;
    recipe.shape = Some(vec![2]);
    let (made, _) = recipe.make::<DLManagedTensorVersioned>();
    let pairs = unsafe { Tensor::import(made, Order::Host) }.unwrap();
    let array = pairs.to_array(&Conversion::new().as_integers(true)).unwrap();
    assert_eq!(array.data_type(), &arrow_device::DataType::UInt16);
    assert_eq!(
        array.to_tensor(&Conversion::new()).unwrap().host().unwrap().to_bytes().unwrap(),
        [1, 2, 3, 4]
    );
}

#[test]
fn anything_at_all_is_refused_or_understood() {
    // A small generator: the same bytes in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..if cfg!(miri) { 3 } else { 3000 } {
        let bytes: Vec<u8> = (0..48)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 24) as u8
            })
            .collect();
        arrow_device_testkit::targets::tensors(&bytes);
    }
    let bytes: &[u8] = if cfg!(miri) { &[2] } else { &[0, 1, 2, 127, 128, 200, 254, 255] };
    for byte in bytes {
        arrow_device_testkit::targets::tensors(&[*byte; 64]);
    }
    arrow_device_testkit::targets::tensors(&[]);
}

// Requirement: SAF-5
#[test]
fn tensors_can_be_used_and_dropped_on_any_thread() {
    fn are_shared<T: Send + Sync>() {}
    are_shared::<Tensor>();
    are_shared::<arrow_device::dlpack::TensorView>();
    are_shared::<arrow_device::dlpack::HostTensor>();
    are_shared::<arrow_device::dlpack::Exported>();
    are_shared::<Managed<DLManagedTensor>>();
    are_shared::<Conversion>();
}
