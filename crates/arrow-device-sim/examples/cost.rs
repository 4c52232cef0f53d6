//! What a checked call costs: `cargo run --release -p arrow-device-sim --example cost`.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use arrow_device::driver::{Region, Route, Spot};
use arrow_device_sim::Sim;

/// Copies between two waits, and how often.
const COPIES: u32 = 100;
const ROUNDS: u32 = 1000;

fn main() {
    for backtraces in [false, true] {
        let sim = Sim::builder().backtraces(backtraces).build();
        let queue = sim.device().open_queue().unwrap();
        let mut memory = sim.device().allocate(1 << 20).unwrap();
        let from = memory.spot(&queue).unwrap();
        for pieces in [1_u64, 1000] {
            let (mut submitted, mut ran) = (Duration::ZERO, Duration::ZERO);
            for turn in 0..ROUNDS * COPIES {
                let offset = 64 + u64::from(turn) % pieces * 64;
                let region = Region { from, to: Spot { offset, ..from }, len: 64 };
                let start = Instant::now();
                // SAFETY: UNS-21: both parts lie inside the memory, which outlives the wait below,
                // and do not overlap; nothing else is submitted.
                unsafe { queue.copy(Route::Within, &[region]) }.unwrap();
                submitted += start.elapsed();
                if turn % COPIES == COPIES - 1 {
                    let start = Instant::now();
                    queue.synchronize().unwrap();
                    ran += start.elapsed();
                }
            }
            let (submitted, ran) = (submitted / (ROUNDS * COPIES), ran / (ROUNDS * COPIES));
            println!(
                "backtraces {backtraces:5}, {pieces:4} destinations: {submitted:?} to check a copy, {ran:?} to run it"
            );
        }
    }
}
