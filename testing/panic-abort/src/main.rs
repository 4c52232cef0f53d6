//! Shows that nothing in the library relies on unwinding, and what a panic in somebody else's code
//! does.
//!
//! The same program is built twice: as usual, where panics unwind, and with the profile
//! `panic-abort`, where one ends the process. Both run the same exercise, which counts panics and
//! must see none. Then the program runs itself with a panic planted in a `Drop` that the library
//! calls: where panics unwind, it is caught and counted and the process lives; where they do not,
//! the process ends there.
//!
//! It ends as a test program does, with a line that counts.

mod exercise;
mod planted;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// One check: what it shows, and how.
type Check = (&'static str, fn() -> Result<(), String>);

fn main() -> ExitCode {
    if let Some(plant) = std::env::args().nth(1) {
        return planted::run(&plant);
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        usual(panic);
    }));

    let checks: Vec<Check> = [exercise::CHECKS, &[NO_PANIC], planted::CHECKS].concat();
    println!("running {} checks where panics {}", checks.len(), how_panics_end());
    let mut failed = 0;
    for (name, check) in &checks {
        match check() {
            Ok(()) => println!("check {name} ... ok"),
            Err(reason) => {
                failed += 1;
                println!("check {name} ... FAILED\n    {reason}");
            }
        }
    }
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    let passed = checks.len() - failed;
    println!("\ntest result: {outcome}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const NO_PANIC: Check = ("nothing_so_far_has_panicked", || {
    let panics = PANICS.load(Ordering::Relaxed);
    expect(panics == 0, || format!("{panics} panics were seen"))
});

fn how_panics_end() -> &'static str {
    if cfg!(panic = "abort") { "end the process" } else { "unwind" }
}

/// Fails a check, in place of an assertion that would panic.
fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
