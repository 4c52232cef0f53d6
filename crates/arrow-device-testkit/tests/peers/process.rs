//! A test that runs in a process of its own fails when its body does not run to the end there.

use std::panic::{UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device_testkit::process::{self, Child, End};

/// What is said where this panics.
fn complaint(body: impl FnOnce() + UnwindSafe) -> String {
    let thrown = catch_unwind(body).unwrap_err();
    *thrown.downcast::<String>().unwrap()
}

#[test]
fn a_body_runs_in_the_child_and_nowhere_else() {
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    process::alone(|| HAS_RUN.store(true, Ordering::Relaxed));
    assert_eq!(HAS_RUN.load(Ordering::Relaxed), process::is_child());
}

#[test]
fn a_body_that_panics_fails_the_test() {
    let alone = || process::alone(|| panic!("planted {}", "words"));
    if process::is_child() {
        return alone();
    }
    let complaint = complaint(alone);
    assert!(complaint.contains("planted words") && complaint.contains("101"), "{complaint}");
}

#[test]
fn a_body_that_ends_the_process_fails_the_test() {
    let alone = || process::alone(|| std::process::exit(0));
    if process::is_child() {
        return alone();
    }
    let complaint = complaint(alone);
    assert!(complaint.contains("did not run to its end"), "{complaint}");
}

#[test]
fn a_child_that_runs_no_test_is_a_failure() {
    for unknown in ["process::nobody", "a_body_that_panics_fails_the_test", ""] {
        let complaint = complaint(|| drop(Child::of(unknown).run()));
        assert!(complaint.contains("it ran no test"), "{complaint}");
    }
}

#[test]
fn a_crash_is_told_from_an_end() {
    assert_eq!(process::end_of(|| ()).unwrap_or(End::Well), End::Well);
}

#[test]
fn a_crash_is_told_from_a_panic() {
    let end_of = || assert!(process::end_of(|| panic!("planted {}", "words")).is_none());
    if process::is_child() {
        return end_of();
    }
    let complaint = complaint(end_of);
    assert!(complaint.contains("planted words"), "{complaint}");
}

#[test]
fn a_body_that_aborts_has_crashed() {
    assert_eq!(process::end_of(|| std::process::abort()), Some(End::Crashed));
}
