//! Copies that a device which copies whole units, between two allocations, does not take.

use arrow_device::driver::Route;
use arrow_device_sim::{Kind, Mistake, Sim};

use crate::mistakes::{Twins, with_memory};
use crate::support::{at, host, region};

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "a copy to a place between units",
        mistake: Mistake::UncopyableRegion,
        build: || Sim::builder().kind(Kind::WholeUnits),
        wrong: |bench| {
            with_memory(bench, |memory| {
                let regions = [region(host(&[1; 8]), at(memory, 6), 8)];
                let driver = bench.driver();
                unsafe { driver.copy(bench.one.raw(), Route::FromHost, &regions) }.unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench
                    .copy(&bench.one, Route::FromHost, &[region(host(&[1; 8]), at(memory, 6), 8)])
                    .unwrap();
            });
        },
    },
    Twins {
        name: "a copy inside one allocation",
        mistake: Mistake::UncopyableRegion,
        build: || Sim::builder().kind(Kind::WholeUnits),
        wrong: |bench| {
            with_memory(bench, |memory| {
                let regions = [region(at(memory, 0), at(memory, 32), 32)];
                let driver = bench.driver();
                unsafe { driver.copy(bench.one.raw(), Route::Within, &regions) }.unwrap();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                bench
                    .copy(&bench.one, Route::Within, &[region(at(memory, 0), at(memory, 32), 32)])
                    .unwrap();
            });
        },
    },
];
