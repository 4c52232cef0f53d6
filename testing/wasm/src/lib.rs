//! Checks of the library and of the software device, for WebAssembly without an operating system:
//! there is no clock, no thread, no process and no C library.
//!
//! `run.mjs` runs each check in an instance of its own in node, so that one that traps ends no
//! other, and counts them as a test program does. `cargo test` runs them on every other target.

#[cfg(any(test, target_family = "wasm"))]
mod checks;

/// One check: what it shows, and how.
#[cfg(any(test, target_family = "wasm"))]
type Check = (&'static str, fn() -> Result<(), String>);

/// What JavaScript calls.
#[cfg(target_family = "wasm")]
mod javascript {
    use std::sync::Once;

    use crate::checks::CHECKS;

    unsafe extern "C" {
        /// Prints a line that lies in this memory.
        safe fn print_line(text: *const u8, bytes: usize);
    }

    fn print(text: &str) {
        print_line(text.as_ptr(), text.len());
    }

    /// How many checks there are.
    #[unsafe(no_mangle)]
    extern "C" fn check_count() -> usize {
        CHECKS.len()
    }

    /// Prints the name of a check.
    #[unsafe(no_mangle)]
    extern "C" fn print_name(index: usize) {
        print(CHECKS.get(index).map_or("no such check", |(name, _)| name));
    }

    /// Runs a check, prints why it fails, and returns whether it passes.
    #[unsafe(no_mangle)]
    extern "C" fn run_check(index: usize) -> bool {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| print(&panic.to_string()))));
        let outcome = CHECKS.get(index).map_or(Ok(()), |(_, check)| check());
        outcome.inspect_err(|reason| print(reason)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_check_passes_here() {
        for (name, check) in super::checks::CHECKS {
            assert_eq!(check(), Ok(()), "{name}");
        }
    }
}
