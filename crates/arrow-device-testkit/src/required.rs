//! What a test needs and a machine may not have: a driver, a compiler, somebody else's library.
//!
//! A test without it is left out, and says so. `ARROW_DEVICE_REQUIRE` names, with commas between,
//! what may not be left out (`all` for everything), and where `CI` is `true` nothing may.

use std::env;

/// Whether `ARROW_DEVICE_REQUIRE` lists a name.
pub fn is_listed(name: &str) -> bool {
    let listed = env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
    listed.split(',').any(|one| one.trim() == name)
}

/// Whether a test may not be left out for want of this.
pub fn is_required(name: &str) -> bool {
    is_listed(name) || is_listed("all") || env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Says that a test is left out for want of this, and why.
///
/// # Panics
/// Where it may not be left out.
#[track_caller]
pub fn skip(name: &str, reason: &str) {
    assert!(!is_required(name), "{name} is required: {reason}");
    println!("skipped: {reason}");
}
