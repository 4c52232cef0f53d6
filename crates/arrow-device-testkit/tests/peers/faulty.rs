//! The suite before each fault of a driver, on the software device.

use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::faulty::{self, Fault};

/// What the kind of software device makes harmless.
fn no_effect(kind: Kind) -> Vec<(Fault, &'static str)> {
    let _ = kind;
    Vec::new()
}

#[test]
fn the_suite_finds_each_fault_on_the_software_device() {
    for kind in Kind::ALL {
        let name = format!("software device, {kind:?}");
        let table = faulty::table(name, &no_effect(kind), |fault| {
            let sim = Sim::builder().kind(kind).parts(true).peers(2).backtraces(false).build();
            let report = faulty::report(&sim.device(), Some(&sim.device_number(1)), fault);
            let left = sim.finish();
            assert!(fault.is_some() || left.is_empty(), "{left:?}");
            report
        });
        table.assert();
    }
}
