//! The conformance suite on the host and on software devices of every kind, with a line for each
//! check.
//!
//! `cargo run --example suite -- everything` takes all types inside all types, too.

use std::time::Instant;

use arrow_device::Device;
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::suite::Suite;

fn main() {
    let everything = std::env::args().any(|argument| argument == "everything");
    run(&Device::host(), None, everything);
    for kind in Kind::ALL {
        // A simulator that sees a mistake says so when it is dropped.
        let sim = Sim::builder().kind(kind).peers(2).backtraces(false).build();
        run(&sim.device(), Some(&sim.device_number(1)), everything);
    }
}

fn run(device: &Device, other: Option<&Device>, everything: bool) {
    let start = Instant::now();
    let mut suite = Suite::new(device);
    if everything {
        suite = suite.everything();
    }
    if let Some(other) = other {
        suite = suite.beside(other);
    }
    suite.run().assert();
    println!("  in {:.1} s\n", start.elapsed().as_secs_f32());
}
