//! The first calls of a process to the driver fail. It has made none before, so this program does nothing else.

use gpu_backends::{Bench, faults};

#[test]
fn there_is_no_device_until_the_first_calls_succeed() {
    faults::the_first_calls_fail(&Bench::cuda());
}
