//! What the library calls of Vulkan, seen from in between: calls that fail, every one of them in
//! turn or all because the device is lost; locks, barriers, and two queues.

use std::ptr::NonNull;
use std::sync::Mutex;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, Error, ErrorKind, Queue, Result};
use arrow_device_testkit::{process, release_until, trips};
use arrow_device_vulkan::{Placement, open_from};
use ash::vk::Result as Code;

use crate::hooks;
use crate::shader::handles;
use crate::support;
use crate::support::Bench;

const BOTH: [Placement; 2] = [Placement::HostVisible, Placement::DeviceOnly];

fn text() -> Array {
    Array::from_texts(DataType::Utf8, [Some("one"), None, Some("three")]).unwrap()
}

/// There, on, out as a C struct and back.
fn everything(device: &Device) -> Result<()> {
    let [one, other] = [device.open_queue()?, device.open_queue()?];
    let there = text().copy_to(&one)?;
    let options = arrow_device::copy::Options::new().always(true).separate(true);
    let again = there.copy_with(&other, &options)?;
    let mut c_array = ArrowDeviceArray::empty();
    again.export(&mut c_array)?;
    let schema = again.schema()?;
    let imported = unsafe { Array::import(&mut c_array, &schema) }?;
    drop(imported.on(&one)?);
    let back = imported.slice(1, 2)?.to_host()?;
    back.validate()
}

#[track_caller]
fn assert_has(error: &Error, code: Code, kind: ErrorKind, device: &Device) {
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.vendor().unwrap().code, i64::from(code.as_raw()), "{error}");
    assert_eq!(error.device(), Some(device.id()), "{error}");
}

#[test]
fn whichever_call_fails_the_error_has_its_code_and_everything_is_freed() {
    process::alone(|| {
        for placement in BOTH {
            let Some(bench) = Bench::by(placement, hooks::hooked) else { return };
            everything(&bench).unwrap();
            let mut failed = 0;
            for call in 0.. {
                assert!(call < 1000, "the calls have no end");
                hooks::fail_after(call, Code::ERROR_OUT_OF_HOST_MEMORY);
                let result = everything(&bench);
                if !hooks::obey() {
                    result.unwrap();
                    break;
                }
                // Where nobody is to be told, and where it is tried again, all may go well.
                if let Err(error) = result {
                    assert_has(
                        &error,
                        Code::ERROR_OUT_OF_HOST_MEMORY,
                        ErrorKind::OutOfMemory,
                        &bench,
                    );
                    failed += 1;
                }
                assert!(release_until(|| bench.held().allocated == 0), "call {call}");
            }
            assert!(failed > 20, "{failed}");
        }
    });
}

#[test]
fn opening_that_fails_leaves_nothing() {
    process::alone(|| {
        let Some(vulkan) = support::vulkan() else { return };
        for call in 0.. {
            let handles = hooks::hooked(handles(&vulkan));
            hooks::fail_after(call, Code::ERROR_OUT_OF_DEVICE_MEMORY);
            let opened = unsafe { open_from(handles, Placement::Automatic) };
            if !hooks::obey() {
                opened.unwrap();
                assert!(call > 2, "{call}");
                break;
            }
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert_eq!(error.vendor().unwrap().code, -2);
        }
        support::finish(vulkan);
    });
}

// Requirement: ARR-16
#[test]
fn a_lost_device_uses_nothing_and_says_so() {
    process::alone(|| {
        for placement in BOTH {
            let Some(bench) = Bench::by(placement, hooks::hooked) else { return };
            let queue = bench.open_queue().unwrap();
            let there = text().copy_to(&queue).unwrap();
            let event = queue.record().unwrap();
            // For memory of the host that is still to be written.
            let bytes = vec![0_u8; 4];
            queue.keep_until_done(bytes);
            queue.synchronize().unwrap();
            let view = there.on(&queue).unwrap();

            hooks::fail_always(Code::ERROR_DEVICE_LOST);
            let lost: [Result<()>; 6] = [
                queue.synchronize(),
                event.synchronize(),
                event.is_complete().map(drop),
                queue.record().map(drop),
                text().copy_to(&queue).map(drop),
                there.to_host().map(drop),
            ];
            for error in lost.into_iter().map(Result::unwrap_err) {
                assert_has(&error, Code::ERROR_DEVICE_LOST, ErrorKind::DeviceLost, &bench);
            }
            drop((view, there));
            assert!(release_until(|| bench.held().allocated == 0));
            // It stays lost, whatever the driver says.
            hooks::obey();
            assert_eq!(event.is_complete().unwrap_err().kind(), ErrorKind::DeviceLost);
        }
    });
}

#[test]
fn allocations_that_fail_have_the_vendors_code() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::Automatic, hooks::hooked) else { return };
        for code in [Code::ERROR_OUT_OF_DEVICE_MEMORY, Code::ERROR_TOO_MANY_OBJECTS] {
            // The buffer is made, and its memory is not.
            hooks::fail_after(1, code);
            let error = bench.driver();
            let error = unsafe { error.allocate(64, None) }.unwrap_err();
            hooks::obey();
            assert_has(&error, code, ErrorKind::OutOfMemory, &bench);
        }
    });
}

/// A loader of which half the functions are missing.
#[test]
fn a_loader_without_what_is_needed_is_refused() {
    process::alone(|| {
        unsafe extern "system" fn nothing(
            _: ash::vk::Instance,
            _: *const std::ffi::c_char,
        ) -> ash::vk::PFN_vkVoidFunction {
            None
        }
        let Some(vulkan) = support::vulkan() else { return };
        let loader: ash::vk::PFN_vkGetInstanceProcAddr = nothing;
        let handles = handles(&vulkan).with_loader(NonNull::new(loader as *mut _).unwrap());
        let error = unsafe { open_from(handles, Placement::Automatic) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        support::finish(vulkan);
    });
}

#[test]
fn every_submission_is_made_under_the_lock_of_the_queue() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::watched) else { return };
        hooks::unlocked();
        everything(&bench).unwrap();
        assert_eq!(hooks::unlocked(), 0);
    });
}

/// A lock is safe code, whose mistakes must not reach Vulkan's functions.
// Requirement: SAF-33
#[test]
fn a_lock_that_submits_twice_makes_no_second_submission_of_the_same_work() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::locked_twice) else { return };
        everything(&bench).unwrap();
        let [first, second] = hooks::submissions();
        assert!(first > 0 && second == 0, "{first} submissions, and {second} again");
    });
}

/// A driver for the processor runs all in order by itself, so that a barrier is not missed there.
// Requirement: ARR-20
#[test]
fn whatever_is_submitted_stands_between_full_barriers() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::hooked) else { return };
        let queue = bench.open_queue().unwrap();
        hooks::commands_seen();
        text().copy_to(&queue).unwrap();
        let seen = hooks::commands_seen();
        // One submission for all regions, and the rest for events behind it.
        let events = seen.strip_prefix("(|c|)").unwrap();
        assert!(events.len() >= 5 && events.replace("(|s|)", "").is_empty(), "{seen}");
    });
}

/// It takes something in between to have two queues where the driver has one.
// Requirement: ARR-5, ARR-20
#[test]
fn a_queue_waits_for_another_one_by_its_timeline() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::with_two_queues) else { return };
        let [one, two] = [(); 2].map(|()| bench.open_queue().unwrap());
        assert_ne!(one.raw(), two.raw());
        let second: &Queue = if one.raw().bits() & 1 == 1 { &one } else { &two };
        let first = if one.raw() == second.raw() { &two } else { &one };
        let there = text().copy_to(first).unwrap();
        let before = hooks::waits();
        drop(there.on(second).unwrap());
        assert_eq!(hooks::waits(), before + 1);
        // Its own events it has passed by order alone.
        let event = second.record().unwrap();
        second.wait(&event).unwrap();
        assert_eq!(hooks::waits(), before + 1);
        there.copy_with(second, &arrow_device::copy::Options::new().always(true)).unwrap();
        there.to_host().unwrap().validate().unwrap();
    });
}

// Requirement: ARR-5, ARR-20
#[test]
fn with_several_queues_the_host_waits_for_a_foreign_event() {
    process::alone(|| {
        use arrow_device::Event;
        use arrow_device::driver::{Raw, Waiting};
        use ash::vk::Handle;
        let Some(bench) = Bench::by(Placement::Automatic, hooks::with_two_queues) else { return };
        let (queue, device) = (bench.open_queue().unwrap(), &bench.vulkan().device);
        let raw = unsafe { device.create_event(&Default::default(), None) }.unwrap();
        let handle = Raw::from_bits(raw.as_raw() as usize);
        let waiting = unsafe { bench.driver().wait(queue.raw(), handle) }.unwrap();
        assert_eq!(waiting, Waiting::HostMustWait);
        let event = unsafe { Event::adopt(&bench, handle) };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.wait(&event));
            assert!(!event.is_complete().unwrap() && !waits.is_finished());
            unsafe { device.set_event(raw) }.unwrap();
            waits.join().unwrap().unwrap();
        });
        drop(event);
        unsafe { device.destroy_event(raw, None) };
    });
}

#[test]
fn staging_buffers_are_small_and_used_again() {
    process::alone(|| {
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::hooked) else { return };
        let queue = bench.open_queue().unwrap();
        trips::mixed_copies_reuse_what_they_pass_through(&queue, || hooks::allocations().0);
    });
}

#[test]
fn a_large_copy_passes_through_many_small_buffers() {
    process::alone(|| {
        const LEN: usize = 150 << 20;
        let Some(bench) = Bench::by(Placement::DeviceOnly, hooks::hooked) else { return };
        let queue = bench.open_queue().unwrap();
        // Before the count, so that all that is counted is staging.
        let block = Mutex::new(Some(bench.allocate(LEN as u64).unwrap()));
        let given = Options::new().allocator(move |_: &Device, _: u64, _: Option<&Queue>| {
            Ok(block.lock().unwrap().take().unwrap())
        });
        hooks::count_allocations();
        let bytes: Vec<u64> = (0..LEN as u64 / 8).collect();
        let buffers = [None, Some(bytes.into())];
        let array = Array::builder(DataType::UInt64).len(LEN / 8).buffers(buffers);
        let array = array.finish_ready().unwrap();
        let there = array.copy_with(&queue, &given).unwrap();
        let back = there.to_host().unwrap();
        let [sent, found] = [array.host().unwrap(), back.host().unwrap()];
        assert!(sent.buffer(1).unwrap()[..] == found.buffer(1).unwrap()[..]);
        let (count, largest) = hooks::allocations();
        assert!(largest <= 16 << 20, "a staging buffer of {largest} bytes");
        assert!(count <= 8, "{count} staging buffers");
    });
}

/// An event that a command sets needs a queue that computes or draws.
#[test]
fn a_queue_that_only_transfers_is_refused() {
    process::alone(|| {
        let Some(vulkan) = support::vulkan() else { return };
        let open = || unsafe { open_from(hooks::hooked(handles(&vulkan)), Placement::Automatic) };
        hooks::set_transfers_only(true);
        let error = open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("cannot set events"), "{error}");
        hooks::set_transfers_only(false);
        drop(open().unwrap());
        support::finish(vulkan);
    });
}
