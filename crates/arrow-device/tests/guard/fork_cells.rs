//! What is made when it is first asked for, at a `fork` while a thread of the parent makes it.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::abi::ArrowSchema;
use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{Buffer, DataType, Field, Schema};
use arrow_device_testkit::process::{alone, forked};

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

/// Forks while a thread asks one thing after the other, and asks all in the child.
fn ask_in_children<T: Sync>(
    rounds: usize,
    make: impl Fn() -> Vec<T>,
    ask: impl Fn(&T) -> bool + Sync,
) {
    for _ in 0..rounds {
        let (things, begun, stop) = (make(), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for thing in &things {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    assert!(ask(thing));
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let child = std::panic::AssertUnwindSafe(|| {
                forked(|| expect(things.iter().all(&ask), "another answer"));
            });
            let outcome = std::panic::catch_unwind(child);
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

/// Schemas that were imported, of which nobody has asked anything yet.
fn wide_schemas() -> Vec<Schema> {
    const COLUMNS: usize = 4000;
    let columns = (0..COLUMNS).map(|number| Field::new(number.to_string(), DataType::Int64, true));
    let schema = Schema::batch(columns).unwrap();
    let import = || {
        let mut c_schema = ArrowSchema::empty();
        schema.export(&mut c_schema).unwrap();
        unsafe { Schema::import(&raw mut c_schema) }.unwrap()
    };
    (0..60).map(|_| import()).collect()
}

// Requirement: SAF-27
#[test]
fn a_child_reads_schemas_that_a_thread_of_its_parent_began_to_read() {
    alone(|| ask_in_children(10, wide_schemas, |schema| schema.columns().len() == 4000));
}

// Requirement: SAF-27
#[test]
fn a_child_exports_schemas_that_a_thread_of_its_parent_began_to_export() {
    alone(|| {
        // The fields are there, the structs are not.
        let schemas = || {
            let schemas = wide_schemas();
            assert!(schemas.iter().all(|schema| !schema.columns().is_empty()));
            schemas
        };
        ask_in_children(10, schemas, |schema| {
            let mut c_schema = ArrowSchema::empty();
            schema.export(&mut c_schema).unwrap();
            let again = unsafe { Schema::import(&raw mut c_schema) };
            again.is_ok()
        });
    });
}

fn imported() -> Tensor {
    let numbers = Buffer::from(vec![1_i64, 2, 3]);
    let made = Tensor::from_buffer(numbers, Dtype::INT64, &[3]).unwrap();
    let managed: Managed<DLManagedTensorVersioned> =
        made.export(Order::Host, CopyPolicy::Never).unwrap();
    unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap()
}

// Requirement: SAF-27, SAF-28
#[test]
fn a_child_shares_tensors_that_a_thread_of_its_parent_began_to_share() {
    alone(|| {
        let tensors = || (0..2000).map(|_| imported()).collect();
        ask_in_children(100, tensors, |tensor| {
            tensor.to_array(&Conversion::new()).is_ok_and(|array| array.len() == 3)
        });
    });
}
