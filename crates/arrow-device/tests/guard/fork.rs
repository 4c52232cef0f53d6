//! A child of `fork`: what was the parent's is not touched there, and nothing hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::abi::dlpack::{DLDevice, DLDeviceType, DLManagedTensorVersioned};
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::dlpack::{Conversion, Order, Tensor};
use arrow_device::driver::Raw;
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Event, Memory, Queue, Schema};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Window};
use arrow_device_testkit::process::{alone, forked};
use arrow_device_testkit::tensors::Recipe;
use arrow_device_testkit::{kinds, producer};

use crate::trap::{Answer, Op, Trap, call};

/// An array on a device, ready, that holds `owner`.
fn owned_array(device: &Device, owner: &Arc<()>) -> Array {
    let address = std::ptr::without_provenance(0x1000);
    // SAFETY: nobody reads device memory here.
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
    let array = Array::builder(DataType::Int64).device(device.id()).len(4);
    array.buffers([None, Some(buffer)]).finish_ready().unwrap()
}

/// A host array that holds `owner`.
fn host_array(owner: &Arc<()>) -> Array {
    let values: &'static [i64; 4] = &[1, 2, 3, 4];
    let address = values.as_ptr().cast();
    // SAFETY: the values stay for ever.
    let buffer = unsafe { Buffer::foreign(Device::host().id(), address, 32, owner.clone()) };
    let array = Array::builder(DataType::Int64).len(4);
    array.buffers([None, Some(buffer)]).finish_ready().unwrap()
}

/// Numbers of somebody else's, whose release is counted.
fn foreign(device: &Device, ledger: &Arc<Ledger>) -> Array {
    let mut plan = kinds::Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::None);
    if device.id() != Device::host().id() {
        plan.buffers.iter_mut().for_each(|buffer| *buffer = Content::At(0x1000));
    }
    let schema = unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
    let id = device.id();
    let mut c_array = producer::on_device(producer::array(&plan, ledger), id.device_type.0, id.id);
    unsafe { Array::import(&mut c_array, &schema) }.unwrap()
}

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

// Requirement: SAF-27
#[test]
fn no_operation_of_a_driver_is_called_in_a_child() {
    alone(|| {
        let (trap, _, device) = Trap::open();
        forked(|| {
            let calls = trap.calls();
            for op in Op::ALL {
                let before = held_back().abandoned;
                match call(&**device.driver(), op) {
                    Answer::Refused(error) => {
                        expect(error.kind() == ErrorKind::Unsupported, format!("{op:?}: {error}"))?;
                        expect(error.message().contains("fork"), format!("{op:?}: {error}"))?;
                        expect(error.device() == Some(device.id()), format!("{op:?}: {error}"))?;
                    }
                    Answer::Nothing | Answer::Said(false) => {
                        let abandoned = before + usize::from(op.abandons());
                        expect(
                            held_back().abandoned == abandoned,
                            format!("{op:?} is not counted"),
                        )?;
                    }
                    other => return Err(format!("{op:?}: {other:?}")),
                }
            }
            expect(trap.calls() == calls, "the driver was called")?;
            // What calls no runtime is as it was.
            expect(device.properties().name == "manual", "another name")?;
            let before = held_back().abandoned;
            drop(device);
            expect(!trap.is_gone(), "the driver was dropped")?;
            expect(held_back().abandoned == before + 1, "the driver is not counted")
        });
    });
}

// Requirement: SAF-27, SAF-28
#[test]
fn arrays_of_the_parents_devices_are_forgotten_in_a_child() {
    alone(|| {
        let (trap, manual, device) = Trap::open();
        let (queue, owner, ledger) = (device.open_queue().unwrap(), Arc::new(()), Ledger::new());
        let built = owned_array(&device, &owner);
        let imported = foreign(&device, &ledger);
        let used = owned_array(&device, &owner);
        let view = used.on(&queue).unwrap();
        manual.submit(&queue);
        drop(view);
        let in_view = owned_array(&device, &owner);
        let view = in_view.on(&queue).unwrap();
        let waiting = owned_array(&device, &owner);
        drop(waiting.on(&queue).unwrap());
        drop(waiting);
        assert_eq!(held_back().in_use, 1);
        forked(|| {
            let calls = trap.calls();
            let before = held_back().abandoned;
            drop(built);
            expect(held_back().abandoned == before + 1, "a built array is not counted")?;
            drop(imported);
            expect(held_back().abandoned == before + 2, "an imported array is not counted")?;
            drop(used);
            drop(view);
            drop(in_view);
            expect(ledger.base_releases() == 0, "somebody else's array was released")?;
            release_finished();
            expect(Arc::strong_count(&owner) == 5, "an owner was dropped")?;
            expect(trap.calls() == calls, "the driver was called")
        });
        // The parent's are as they were.
        manual.complete(&queue);
        release_finished();
        assert_eq!(held_back().in_use, 0);
    });
}

#[test]
fn an_array_of_the_parents_device_is_not_shown_to_a_queue_of_the_child() {
    alone(|| {
        let (_, _, device) = Trap::open();
        let owner = Arc::new(());
        let array = owned_array(&device, &owner);
        let queue = device.open_queue().unwrap();
        let (event, ready) = (queue.record().unwrap(), owned_array(&device, &owner));
        let late = Array::builder(DataType::Int64).device(device.id()).len(0);
        let late = late.buffers([None, None]).finish_on(&queue).unwrap();
        forked(|| {
            for outcome in [
                array.on(&queue).err(),
                ready.on(&Queue::host()).err(),
                event.is_complete().err(),
                event.synchronize().err(),
                Queue::host().wait(&event).err(),
                late.wait().err(),
                late.is_ready().err(),
                late.export(&mut ArrowDeviceArray::empty()).err(),
                device.open_queue().err(),
                device.allocate(64).err(),
            ] {
                let error = outcome.ok_or("it went well")?;
                let kinds = [ErrorKind::Unsupported, ErrorKind::NotReachable];
                expect(kinds.contains(&error.kind()), error.to_string())?;
            }
            Ok(())
        });
    });
}

#[test]
fn tensors_of_the_parents_devices_are_forgotten_in_a_child() {
    alone(|| {
        let (_, _, _device) = Trap::open();
        let recipe = |type_of_device| {
            let device = DLDevice { device_type: DLDeviceType(type_of_device), device_id: 0 };
            Recipe { device, ..Recipe::default() }
        };
        let import = |type_of_device| {
            let (made, deletions) = recipe(type_of_device).make::<DLManagedTensorVersioned>();
            (unsafe { Tensor::import(made, Order::Unordered) }.unwrap(), deletions)
        };
        // Device memory, looked at and not, and host memory.
        let ((first, of_first), (second, of_second)) = (import(2), import(2));
        let (third, of_third) = import(1);
        let memory_of = |tensor: &Tensor| tensor.to_array(&Conversion::new());
        forked(|| {
            let before = held_back().abandoned;
            drop(first);
            expect(of_first.get() == 0, "a deleter was called")?;
            expect(held_back().abandoned == before + 1, "it is not counted")?;
            expect(memory_of(&second).is_err(), "it became an array")?;
            expect(second.on(&Queue::host()).is_err(), "it is shown to a queue")?;
            drop(second);
            expect(of_second.get() == 0, "a deleter was called for the array of a tensor")?;
            expect(held_back().abandoned == before + 2, "the array is not counted")?;
            drop(third);
            expect(of_third.get() == 1, "host memory is kept")
        });
    });
}

// Requirement: SAF-28
#[test]
fn host_arrays_are_used_and_released_in_a_child() {
    alone(|| {
        let (_, _, device) = Trap::open();
        let (owner, ledger) = (Arc::new(()), Ledger::new());
        let (built, imported) = (host_array(&owner), foreign(&Device::host(), &ledger));
        let kept = device.open_queue().unwrap();
        forked(|| {
            let sum = |array: &Array| array.host().unwrap().buffer(1).unwrap().len();
            expect(sum(&built) == 32, "other bytes")?;
            drop(built.on(&Queue::host()).unwrap());
            let mut c_array = ArrowDeviceArray::empty();
            built.export(&mut c_array).unwrap();
            let schema = built.schema().unwrap();
            // SAFETY: it was just exported.
            let again = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
            let copied = again.to_host().unwrap();
            expect(copied.host().unwrap().buffer(1).unwrap()[0] == 1, "other bytes")?;
            let before = held_back().abandoned;
            drop((again, built, copied));
            expect(Arc::strong_count(&owner) == 1, "the owner is kept")?;
            drop(imported);
            expect(ledger.base_releases() == 1, "it was not released")?;
            let fresh = host_array(&owner);
            drop(fresh);
            expect(Arc::strong_count(&owner) == 1, "the owner is kept")?;
            expect(held_back().abandoned == before, "something was given up on")
        });
        drop(kept);
    });
}

#[test]
fn a_child_opens_devices_of_its_own() {
    alone(|| {
        let (_, _, of_the_parent) = Trap::open();
        let id = of_the_parent.id();
        forked(|| {
            expect(Device::find(id).is_none(), "it finds the parent's device")?;
            let (trap, manual, device) = Trap::open();
            expect(Device::find(device.id()).is_some(), "it does not find its own device")?;
            let (queue, owner) = (device.open_queue().unwrap(), Arc::new(()));
            let array = owned_array(&device, &owner);
            let view = array.on(&queue).unwrap();
            manual.submit(&queue);
            drop(view);
            drop(array);
            expect(Arc::strong_count(&owner) == 2, "released in use")?;
            manual.complete(&queue);
            release_finished();
            expect(Arc::strong_count(&owner) == 1, "not released after its use")?;
            expect(trap.calls() > 0, "its driver is not called")
        });
    });
}

// Requirement: SAF-28
#[test]
fn owners_on_the_parents_devices_are_not_dropped_in_a_child() {
    alone(|| {
        let (_, _, device) = Trap::open();
        let (here, there) = (Arc::new(()), Arc::new(()));
        let address = std::ptr::without_provenance(0x1000);
        // SAFETY: nothing is used.
        let (event, queue, memory, buffer) = unsafe {
            (
                Event::adopt_of(&device, Raw::NULL, there.clone()),
                device.adopt_queue_of(Raw::NULL, there.clone()),
                Memory::adopt(&device, Raw::from_bits(64), 64, there.clone()),
                Buffer::foreign(device.id(), address, 64, there.clone()),
            )
        };
        // SAFETY: nothing is used.
        let host = unsafe { Buffer::foreign(Device::host().id(), address, 64, here.clone()) };
        forked(|| {
            let before = held_back().abandoned;
            drop((event, queue, memory, buffer));
            expect(Arc::strong_count(&there) == 5, "an owner was dropped")?;
            expect(
                held_back().abandoned == before + 4,
                format!("{} are counted", held_back().abandoned - before),
            )?;
            drop(host);
            expect(Arc::strong_count(&here) == 1, "the owner on the host is kept")
        });
    });
}

// Requirement: SAF-27, SAF-28
#[test]
fn an_allocator_of_the_parents_device_is_neither_asked_nor_dropped_in_a_child() {
    alone(|| {
        let (_, _, device) = Trap::open();
        let held = Arc::new(());
        let also_held = held.clone();
        let questions = Arc::new(AtomicUsize::new(0));
        let asked = questions.clone();
        let device = device.with_allocator(move |device: &Device, len: u64, _: Option<&Queue>| {
            let _ = &also_held;
            asked.fetch_add(1, Ordering::Relaxed);
            device.allocate(len)
        });
        forked(|| {
            let error = device.allocate(64).unwrap_err();
            expect(error.kind() == ErrorKind::Unsupported, error.to_string())?;
            expect(questions.load(Ordering::Relaxed) == 0, "the allocator was asked")?;
            drop(device);
            expect(Arc::strong_count(&held) == 2, "the allocator was dropped")?;
            expect(held_back().abandoned == 1, "the allocator was not counted")
        });
    });
}

/// Forks again and again while other threads take the lock of the list of open devices.
// Requirement: SAF-27
#[test]
fn a_child_does_not_hang_on_a_lock_that_another_thread_held() {
    alone(|| {
        let (_, _, device) = Trap::open();
        let id = device.id();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..64 {
                            let _ = Device::find(id);
                        }
                    }
                });
            }
            // Ends the threads even where the test fails.
            let _end = End(&stop);
            for _ in 0..200 {
                forked(|| {
                    expect(Device::find(id).is_none(), "it finds the parent's device")?;
                    expect(Device::find(Device::host().id()).is_some(), "no host")
                });
            }
        });
    });
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
