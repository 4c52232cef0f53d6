//! The end of a driver, in handlers of its own that run when the process exits.
//!
//! A driver registers such handlers when it is initialised and when it makes a context, so some are
//! registered later than those of whoever loaded it, and run earlier. Other threads of the program
//! go on meanwhile: a test is called in their place, in the middle of each handler.

use std::sync::Mutex;

use crate::call;
use crate::code::{Answer, Code};
use crate::machine::Machine;

/// What stands for the other threads.
pub(crate) type Meanwhile = extern "C" fn();

static MEANWHILE: Mutex<Option<Meanwhile>> = Mutex::new(None);

/// Calls this in each handler of the end from now on.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_meanwhile(meanwhile: Meanwhile) {
    if let Ok(mut wanted) = MEANWHILE.lock() {
        *wanted = Some(meanwhile);
    }
}

extern "C" fn end() {
    call::with(|machine| machine.is_torn_down = true);
    let meanwhile = MEANWHILE.lock().ok().and_then(|wanted| *wanted);
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
}

impl Machine {
    /// The driver was initialised, or a context was made.
    pub(crate) fn registers_its_end(&self) {
        if self.config.teardown {
            // SAFETY: the handler may run at any time, and its library is never unloaded.
            let _ = unsafe { libc::atexit(end) };
        }
    }

    /// Nothing may be called once the driver is gone.
    pub(crate) fn must_be_there(&mut self) -> Answer {
        if !self.is_torn_down {
            return Ok(());
        }
        Err(self.misuse(
            "CallAfterTheEnd",
            Code::DEINITIALIZED,
            "The driver is called after it has torn itself down, because the process is ending.",
        ))
    }
}
