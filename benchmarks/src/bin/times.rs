//! Times workloads beside their peers: `arrow-device-times [WORKLOAD]`.

use std::time::Duration;

use arrow_device_benchmarks::case::Case;
use arrow_device_benchmarks::clock::{Effort, compare};
use arrow_device_benchmarks::workloads;

fn main() {
    let only = std::env::args().nth(1);
    let effort = Effort { rounds: 41, turn: Duration::from_millis(5) };
    let mut cases: Vec<Case> = workloads::cases();
    cases.retain(|case| only.as_ref().is_none_or(|only| case.workload == only));
    cases.sort_by_key(|case| (case.workload, case.shape, case.size, case.peer));
    let same = |a: &Case, b: &Case| (a.workload, a.shape, a.size) == (b.workload, b.shape, b.size);
    for cases in cases.chunk_by_mut(same) {
        for time in compare(cases, effort) {
            let (workload, shape, size, peer) = (time.workload, time.shape, time.size, time.peer);
            println!("{workload:<24} {shape:<12} {size:>8} {peer:<16} {:>12.1} ns", time.median);
        }
    }
}
