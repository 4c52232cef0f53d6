//! Objects of the C face in a child of `fork`: no callback of a table is called there, its release
//! included, and nothing waits for a call that a thread of the parent was in.

use std::ffi::c_int;
use std::ptr;

use arrow_device::deferred::release_finished;
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, forked, while_threads_work};

use crate::support::face::{call, made};
use crate::support::objects::numbers;
use crate::support::software::{Fault, register};

#[test]
fn no_callback_of_a_registered_device_is_called_in_a_child() {
    alone(|| {
        let sim = Sim::builder().seed(9).backtraces(false).build();
        let (device, registered) = register(&sim, Fault::None);
        let queue = device.open_queue().unwrap();
        let host = Array::from_values(DataType::Int64, [1_i64, 2, 3].map(Some)).unwrap();
        let there = host.copy_to(&queue).unwrap();
        drop(there.on(&queue).unwrap());
        let (kept, last) = (there.clone(), device.clone());
        forked(|| {
            let outcomes = [
                there.to_host().err(),
                queue.record().err(),
                queue.synchronize().err(),
                host.copy_to(&queue).err(),
                device.allocate(64).err(),
            ];
            for (step, error) in outcomes.into_iter().enumerate() {
                let error = error.ok_or_else(|| format!("step {step} went well"))?;
                if error.kind() != ErrorKind::Unsupported || !error.message().contains("fork") {
                    return Err(format!("step {step}: {error}"));
                }
            }
            drop((there, kept, host, queue, device, last));
            release_finished();
            if registered.is_released() { Err("the table was released".into()) } else { Ok(()) }
        });
        drop(sim.take_reports());
        // The test ends with the table in use.
        std::mem::forget(sim);
    });
}

/// What threads and children ask, with an object's address, which is as good on any thread.
type Ask = fn(usize, &mut ArdevPlace, *mut ArdevError) -> c_int;

fn ask_in_children(object: usize, ask: Ask, may_be_refused: bool) {
    let asked = || {
        let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
        call(|error| ask(object, &mut place, error)).map(|()| place.size)
    };
    while_threads_work(
        3,
        || assert_eq!(asked().unwrap(), 24),
        || {
            for _ in 0..300 {
                forked(|| match asked() {
                    Ok(24) => Ok(()),
                    Err(error) if may_be_refused && error.kind() == ErrorKind::Unsupported => {
                        Ok(())
                    }
                    other => Err(format!("{other:?}")),
                });
            }
        },
    );
}

// Requirement: SAF-27
#[test]
fn a_buffer_that_a_thread_of_the_parent_uses_is_refused_to_a_child_or_works() {
    alone(|| {
        let buffer =
            made(|out, error| unsafe { ardev_buffer_allocate(ptr::null(), 24, out, error) });
        let buffer = buffer.unwrap();
        let place: Ask = |buffer, place, error| unsafe {
            let buffer = ptr::with_exposed_provenance_mut(buffer);
            ardev_buffer_place(buffer, ptr::null(), place, error)
        };
        ask_in_children(buffer.expose_provenance(), place, true);
        unsafe { ardev_buffer_free(buffer) };
    });
}

// Requirement: SAF-27, SAF-28
#[test]
fn a_child_reads_an_array_through_a_view_that_a_thread_of_the_parent_uses() {
    alone(|| {
        let array = numbers(1);
        let view = made(|out, error| unsafe { ardev_view_open(array.0, ptr::null(), out, error) });
        let view = view.unwrap();
        let place: Ask = |view, place, error| unsafe {
            let view = ptr::with_exposed_provenance_mut(view);
            ardev_view_buffer(view, 1, place, error)
        };
        ask_in_children(view.expose_provenance(), place, false);
        unsafe { ardev_view_free(view) };
    });
}
