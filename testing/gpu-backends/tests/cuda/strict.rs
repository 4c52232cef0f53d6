//! The same on a driver that is as unkind as its vendor's documents permit: frees wait, copies of
//! ordinary memory do not, handles are used again, and those of what is gone end the process.

use arrow_device_testkit::process;
use gpu_backends::strict::{self, bench};
use simulated_gpu_drivers::Vendor;

// Requirement: SAF-6, SAF-7, SAF-8
#[test]
fn everything_is_exchanged() {
    process::alone(|| strict::everything_is_exchanged(&bench(Vendor::Cuda)));
}

// Requirement: SAF-13, SAF-35
#[test]
fn memory_is_kept_and_found() {
    process::alone(|| strict::memory_is_kept_and_found(&bench(Vendor::Cuda)));
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn the_suite_passes() {
    process::alone(|| strict::the_suite_passes(&bench(Vendor::Cuda)));
}

// Requirement: SAF-19
#[test]
fn handles_are_used_again() {
    process::alone(|| strict::handles_are_used_again(&bench(Vendor::Cuda)));
}

// Requirement: SAF-13
#[test]
fn plain_memory_stays_until_it_is_read() {
    process::alone(|| strict::plain_memory_stays_until_it_is_read(&bench(Vendor::Cuda)));
}

#[test]
fn a_machine_whose_device_reads_ordinary_memory_has_all_copies() {
    process::alone(|| {
        strict::ordinary_memory_is_copied(&strict::coherent(Vendor::Cuda));
    });
}

#[test]
fn ordinary_memory_is_the_hosts() {
    process::alone(|| strict::ordinary_memory_is_the_hosts(&bench(Vendor::Cuda)));
}
