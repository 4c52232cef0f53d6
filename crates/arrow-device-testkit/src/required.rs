//! The things that a test needs and a machine may lack: a driver, a compiler, another library.
//!
//! A test is skipped where they are missing, and says so. `ARROW_DEVICE_REQUIRE` names, with commas
//! between, the things for lack of which no test may be skipped (`all` for everything). Where `CI`
//! is `true`, no test may be skipped at all.

use std::env;

/// Whether `ARROW_DEVICE_REQUIRE` lists a name.
pub fn is_listed(name: &str) -> bool {
    let listed = env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
    listed.split(',').any(|one| one.trim() == name)
}

/// Whether no test may be skipped for lack of this.
pub fn is_required(name: &str) -> bool {
    is_listed(name) || is_listed("all") || env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Prints that a test is skipped for lack of this, and why.
///
/// # Panics
/// Panics if the test may not be skipped.
#[track_caller]
pub fn skip(name: &str, reason: &str) {
    assert!(!is_required(name), "{name} is required: {reason}");
    println!("skipped: {reason}");
}
