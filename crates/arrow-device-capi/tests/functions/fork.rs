//! A table of callbacks in a child of `fork`: none of them is called there, its release included.

use arrow_device::deferred::release_finished;
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, forked};

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
