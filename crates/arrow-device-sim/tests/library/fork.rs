//! The software device in a child of `fork`: the parent's does not work there, and a new one does.

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, DataType, Error, ErrorKind};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, forked};

fn numbers() -> Array {
    Array::from_values(DataType::Int64, [1_i64, 2, 3].map(Some)).unwrap()
}

#[test]
fn a_child_of_fork_has_software_devices_of_its_own_and_not_its_parents() {
    alone(|| {
        let sim = Sim::builder().seed(1).backtraces(false).build();
        let (device, host) = (sim.device(), numbers());
        let queue = device.open_queue().unwrap();
        let there = host.copy_to(&queue).unwrap();
        drop(there.on(&queue).unwrap());
        let again = there.clone();
        forked(|| {
            let is_refused = |outcome: Option<Error>| {
                outcome.is_some_and(|error| error.kind() == ErrorKind::Unsupported)
            };
            let outcomes = [
                there.to_host().err(),
                there.on(&queue).err(),
                there.wait().err(),
                host.copy_to(&queue).err(),
                queue.record().err(),
                device.allocate(64).err(),
            ];
            if !outcomes.into_iter().all(is_refused) {
                return Err("the parent's device was used".into());
            }
            // A device that the child opens, though the parent has one.
            let text = |error: Error| error.to_string();
            let own = Sim::builder().seed(2).backtraces(false).build();
            let own_queue = own.device().open_queue().map_err(text)?;
            if there.on(&own_queue).is_ok() {
                return Err("the parent's data was shown to a queue of the child".into());
            }
            let back = host.copy_to(&own_queue).and_then(|copy| copy.to_host()).map_err(text)?;
            if back.host().map_err(text)?.buffer(1).map_err(text)?[8] != 2 {
                return Err("other bytes".into());
            }
            drop((back, own_queue));
            release_finished();
            let reports = own.finish();
            if !reports.is_empty() {
                return Err(format!("{reports:?}"));
            }
            let before = held_back().abandoned;
            drop((there, again, queue, device));
            if held_back().abandoned > before { Ok(()) } else { Err("nothing is counted".into()) }
        });
        std::mem::forget(sim);
    });
}
