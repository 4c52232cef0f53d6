//! What becomes of CUDA's memory in a child of `fork` and at the end of the process: nothing, and no driver is called.
#![cfg(unix)]

use gpu_backends::{Bench, process};

#[test]
fn no_driver_is_called_in_a_child_of_fork() {
    process::fork(&Bench::cuda());
}

#[test]
fn no_driver_is_called_at_the_end_of_the_process() {
    process::end("no_driver_is_called_at_the_end_of_the_process", Bench::cuda);
}
