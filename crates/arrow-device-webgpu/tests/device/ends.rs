//! Failed work and lost devices.

use std::sync::atomic::Ordering;

use arrow_device::copy::Options;
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, Device, ErrorKind, Queue};
use arrow_device_testkit::{process, release_until};
use arrow_device_webgpu::open_from;

use crate::{hooks, support};

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None]).unwrap()
}

/// Asks a device for everything.
fn is_lost(device: &Device, there: &Array) {
    let lost = ErrorKind::DeviceLost;
    assert_eq!(device.allocate(64).unwrap_err().kind(), lost);
    assert_eq!(device.open_queue().unwrap_err().kind(), lost);
    assert_eq!(there.to_host().unwrap_err().kind(), lost);
}

#[test]
fn a_destroyed_device_is_lost() {
    let Some((web, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    there.wait().unwrap();
    web.destroy().unwrap();
    // wgpu-native tells by the errors of calls, and Dawn by its callback.
    let error = there.to_host().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    is_lost(&device, &there);
    assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    drop(there);
    assert!(release_until(|| device.held().allocated == 0));
}

#[test]
fn a_destroyed_device_takes_no_writes() {
    let Some((web, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    web.destroy().unwrap();
    let error = memory.write(&queue, &[1; 64]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
}

#[test]
fn a_destroyed_device_of_dawn_is_lost() {
    support::with_dawn(|| {
        let (web, device) = support::opened().unwrap();
        let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
        web.destroy().unwrap();
        assert!(web.is_lost().load(Ordering::SeqCst));
        is_lost(&device, &there);
    });
}

/// Nobody has noticed the loss of the device when it is opened again.
#[test]
fn a_device_of_this_crate_that_is_lost_is_opened_anew() {
    process::alone(|| {
        let (Some(device), Some((web, _))) = (support::device(), support::opened()) else { return };
        let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
        there.wait().unwrap();
        let (handle, _) = arrow_device_webgpu::handles_of(&device).unwrap();
        let destroy = web.find(c"wgpuDeviceDestroy").unwrap();
        // SAFETY: the function has this type in `webgpu.h`, and the device is alive.
        unsafe {
            let destroy: unsafe extern "C" fn(*mut std::ffi::c_void) =
                std::mem::transmute(destroy.as_ptr());
            destroy(handle.as_ptr());
        }
        let again = support::device().unwrap();
        assert_ne!(again.id(), device.id());
        let copied = numbers().copy_to(&again.open_queue().unwrap()).unwrap();
        assert!(copied.to_host().unwrap().equals(&numbers()).unwrap());
        is_lost(&device, &there);
        // All share the new one.
        assert_eq!(support::device().unwrap().driver().runtime(), again.driver().runtime());
        drop((device, there));
        assert!(copied.to_host().unwrap().equals(&numbers()).unwrap());
    });
}

/// Another thread finds the device lost, and gives up all reads, while a staging buffer is being
/// mapped.
#[test]
fn a_staging_buffer_is_not_released_while_it_is_being_mapped() {
    process::alone(|| {
        let Some((web, device)) = hooks::opened() else { return };
        let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
        there.wait().unwrap();
        let (flag, other) = (web.is_lost(), device.clone());
        hooks::in_next_mapping(Box::new(move || {
            flag.store(true, Ordering::SeqCst);
            let asked = std::thread::spawn(move || other.allocate(64).unwrap_err().kind());
            assert_eq!(asked.join().unwrap(), ErrorKind::DeviceLost);
        }));
        let error = there.to_host().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert_eq!(hooks::mappings(), (1, 0));
    });
}

/// Another thread finds the device lost, and gives up a read, while this one is about to say that
/// the work behind the read is done.
// Requirement: DRV-19, DRV-28
#[test]
fn no_event_behind_a_read_that_was_given_up_has_passed() {
    process::alone(|| {
        let Some((web, device)) = hooks::opened() else { return };
        let queue = device.open_queue().unwrap();
        let there = numbers().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let mut memory = queue.allocate(64).unwrap();
        let to = memory.spot(&queue).unwrap();
        let release = hooks::hold();
        let mut copy = there.copy_polled(&Queue::host(), &Options::new()).unwrap();
        assert!(copy.poll().unwrap().is_none());
        // The event is announced when it is asked for, because it is behind a write.
        let bytes = [1_u8; 64];
        let from = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
        // SAFETY: the bytes are taken at once, and the memory is there until the end.
        unsafe { queue.copy(Route::FromHost, &[Region { from, to, len: 64 }]) }.unwrap();
        let event = queue.record().unwrap();
        let other = device.clone();
        hooks::in_next_announcement(Box::new(move || {
            while !hooks::is_done() {
                web.poll();
            }
            web.is_lost().store(true, Ordering::SeqCst);
            let asked = std::thread::spawn(move || other.allocate(64).unwrap_err().kind());
            assert_eq!(asked.join().unwrap(), ErrorKind::DeviceLost);
        }));
        let error = event.is_complete().unwrap_err();
        assert!(hooks::is_done());
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert_eq!(copy.poll().unwrap_err().kind(), ErrorKind::DeviceLost);
        drop(release);
    });
}

/// A flag of the application's is looked at by calls that the library would accept.
#[test]
fn the_flag_of_the_loss_is_looked_at_in_every_call() {
    let Some((web, device)) = support::opened() else { return };
    let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
    web.is_lost().store(true, Ordering::SeqCst);
    is_lost(&device, &there);
}

#[test]
fn a_read_that_fails_reaches_what_comes_behind_it() {
    process::alone(|| {
        let Some((web, handles)) = support::application() else { return };
        let handles = hooks::hooked(&web, handles);
        // SAFETY: the handles keep what they are the handles of, and were made together.
        let device = unsafe { open_from(handles.clone()) }.unwrap();
        let queue = device.open_queue().unwrap();
        let there = numbers().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let before = queue.record().unwrap();
        before.synchronize().unwrap();
        hooks::fail_next();
        let error = there.to_host().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
        assert!(before.is_complete().unwrap());
        for _ in 0..3 {
            let later = queue.record().unwrap();
            assert_eq!(later.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
            assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
        }
        // Opened again, the device goes on.
        // SAFETY: the handles keep what they are the handles of, and were made together.
        let again = unsafe { open_from(handles) }.unwrap();
        assert_ne!(again.driver().runtime(), device.driver().runtime());
        let there = numbers().copy_to(&again.open_queue().unwrap()).unwrap();
        assert!(there.to_host().unwrap().equals(&numbers()).unwrap());
    });
}

/// Somebody polls between the callback and the bytes: nobody is told that they are there sooner.
#[test]
fn bytes_are_in_host_memory_when_an_event_says_so() {
    process::alone(|| {
        let Some((web, device)) = hooks::opened() else { return };
        let queue = device.open_queue().unwrap();
        let there = numbers().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let release = hooks::hold();
        let event = queue.record().unwrap();
        for _ in 0..50 {
            web.poll();
            assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
        }
        release();
        event.synchronize().unwrap();
        assert!(event.is_complete().unwrap());
        queue.synchronize().unwrap();
    });
}
