//! Devices of the application's own: kernels before and behind the library's work, and openings.

use std::sync::{Arc, Mutex};

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_testkit::{process, release_until};
use arrow_device_webgpu::{handles_of, open_for, open_from};

use crate::{hooks, support};

const COUNT: usize = 4096;

/// What the application submits itself is in the order of the queue, on both sides of what the
/// library submits. Copies from the host stay in the library until then, and are in order, too.
#[test]
fn work_of_the_application_is_in_the_order_of_the_queue() {
    let Some((web, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let double = c"@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
            data[at.x] = data[at.x] * 2u + 1u;
        }";
    for round in 0..20_u32 {
        let values: Vec<u8> = (0..COUNT as u32).flat_map(|at| (at + round).to_ne_bytes()).collect();
        let mut memory = queue.allocate(values.len() as u64).unwrap();
        memory.write(&queue, &values).unwrap();
        let spot = memory.spot(&queue).unwrap();
        web.run(double, &[spot.base.as_ptr()], COUNT as u32 / 64).unwrap();
        let mut back = vec![0_u8; values.len()];
        let to = Spot { base: Raw::from_ptr(back.as_mut_ptr().cast()), offset: 0 };
        let region = Region { from: spot, to, len: back.len() as u64 };
        // SAFETY: the bytes are kept until the event has passed.
        unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
        let event = queue.record().unwrap();
        event.synchronize().unwrap();
        let expected: Vec<u8> =
            (0..COUNT as u32).flat_map(|at| ((at + round) * 2 + 1).to_ne_bytes()).collect();
        assert!(back == expected, "round {round}");
    }
}

#[test]
fn one_wgpu_device_is_one_device() {
    let Some((web, handles)) = support::application() else { return };
    // SAFETY: the handles keep what they are the handles of, and were made together.
    let [one, two] = [(); 2].map(|()| unsafe { open_from(handles.clone()) }.unwrap());
    assert_eq!(one.driver().runtime(), two.driver().runtime());
    assert_eq!(one.id().id, web.device().as_ptr().addr() as i64);
    assert_eq!(open_for(one.id().id).unwrap().id(), two.id());
    assert_eq!(handles_of(&one).unwrap(), (web.device(), web.queue()));
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let there = array.copy_to(&one.open_queue().unwrap()).unwrap();
    let moved = there.copy_to(&two.open_queue().unwrap()).unwrap();
    assert!(moved.to_host().unwrap().equals(&array).unwrap());
}

#[test]
fn two_devices_are_kept_apart() {
    let (Some((_web, one)), Some(two)) = (support::opened(), support::device()) else { return };
    assert_ne!(one.id(), two.id());
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let there = array.copy_to(&one.open_queue().unwrap()).unwrap();
    let queue = two.open_queue().unwrap();
    let error = there.on(&queue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
    // A copy goes through the host.
    let copied = there.copy_to(&queue).unwrap();
    assert_eq!(copied.device(), two.id());
    assert!(copied.to_host().unwrap().equals(&array).unwrap());
}

#[test]
fn the_device_is_kept_as_long_as_its_data() {
    let Some((web, device)) = support::opened() else { return };
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let there = array.copy_to(&device.open_queue().unwrap()).unwrap();
    drop(device);
    assert!(Arc::strong_count(&web) > 1);
    drop(there);
    assert!(release_until(|| Arc::strong_count(&web) == 1));
}

/// Dawn's devices that may not be used by several threads at once need a lock.
#[test]
fn a_device_of_dawn_opens_by_its_handles() {
    support::with_dawn(|| {
        let (web, device) = support::opened().unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        let there = array.copy_to(&device.open_queue().unwrap()).unwrap();
        assert!(there.to_host().unwrap().equals(&array).unwrap());
        drop((there, device));
        assert!(release_until(|| Arc::strong_count(&web) == 1));
    });
}

#[test]
fn calls_are_made_under_the_lock_of_the_application() {
    process::alone(|| {
        let Some((web, handles)) = support::application() else { return };
        let lock = Arc::new(Mutex::new(()));
        hooks::watch_lock(lock.clone());
        // SAFETY: the handles keep what they are the handles of, and were made together.
        let device = unsafe { open_from(hooks::hooked(&web, handles).with_lock(lock)) }.unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        let queue = device.open_queue().unwrap();
        let there = array.copy_to(&queue).unwrap();
        assert!(there.to_host().unwrap().equals(&array).unwrap());
        queue.synchronize().unwrap();
        assert!((0..10_000).any(|_| queue.is_idle().unwrap()));
        let (calls, unlocked) = hooks::unlocked();
        assert!(calls > 5, "{calls}");
        assert_eq!(unlocked, 0);
    });
}
