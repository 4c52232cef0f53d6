//! Simulators in a child of `fork`: what the parent has opened is refused, and a child whose parent
//! has used no simulator opens them as any process does.

use std::sync::OnceLock;

use arrow_device::{Device, Queue, Result};
use arrow_device_testkit::forks;
use arrow_device_testkit::process::{alone, forked};
use arrow_device_vpi::{Hold, Job, Simulator};

use crate::support;

/// The parent's simulator. A child is forked while the parent's engine is busy with questions.
static PARENTS: OnceLock<(Device, Queue, Simulator)> = OnceLock::new();

fn simulator() -> &'static Simulator {
    &PARENTS.get().unwrap().2
}

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    alone(|| {
        if support::is_there() {
            forks::a_child_refuses_what_its_parent_opened(
                || arrow_device_vpi::open(0),
                &[
                    ("a list of devices", || arrow_device_vpi::devices().map(drop)),
                    ("whether there is a device", || arrow_device_vpi::is_available()),
                ],
            );
        }
    });
}

/// Neither does a child wait for a lock that the thread of its parent held, nor does it speak to
/// the simulator of its parent.
#[test]
fn a_child_does_not_use_its_parents_simulator() {
    alone(|| {
        let Some(device) = support::device() else { return };
        let (queue, opened) = (device.open_queue().unwrap(), support::simulator(&device));
        PARENTS.set((device, queue, opened)).unwrap();
        let hold: Hold = simulator().hold();
        let before = simulator().time();
        forked(|| {
            // SAFETY: UNS-15 and UNS-16: the register is not set.
            let set = || unsafe { simulator().set("arrow_device_top.ram.len", 7) };
            let job = || {
                let queue = &PARENTS.get().unwrap().1;
                // SAFETY: UNS-15 and UNS-16: the job is refused.
                unsafe { simulator().submit(queue, Job::new("a", "b")) }
            };
            let asked: [(&str, Result<()>); 4] = [
                ("a value", simulator().value("arrow_device_top.clk").map(drop)),
                ("a register", set()),
                ("time", simulator().run(10)),
                ("a job", job()),
            ];
            for (what, answer) in asked {
                match answer.map_err(|error| error.kind()) {
                    Err(arrow_device::ErrorKind::Unsupported) => {}
                    other => return Err(format!("{what}: {other:?}")),
                }
            }
            drop(simulator().hold());
            drop(hold);
            let numbers = [simulator().time(), simulator().unknown_bytes()];
            if !simulator().is_lost() || numbers != [0, 0] || simulator().memory_in_use() != 0 {
                return Err(format!("the child knows {numbers:?}"));
            }
            Ok(())
        });
        assert_eq!(simulator().value("arrow_device_top.ram.done").unwrap(), 0);
        assert_eq!(simulator().time(), before);
    });
}

#[test]
fn a_child_of_a_process_that_did_not_use_it_opens_devices() {
    alone(|| forks::a_child_opens_devices(support::is_there, || arrow_device_vpi::open(0)));
}
