//! [`Report`]: a mistake that the simulated driver saw.

use std::ffi::{c_char, c_void};
use std::fmt;

use super::string;

/// A mistake that the simulated driver saw. [`Display`](fmt::Display) tells it in words, with the
/// lines that made it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Report {
    /// Which one: the name of an [`arrow_device_sim::Mistake`], or one of the driver's own.
    pub kind: String,
    /// The thread that was in the driver, by the system's number.
    pub thread: u64,
    /// The library keeps the rest. It stays in the process, so this may be asked for at any time.
    number: u64,
    text: Text,
}

/// The library's function for the text of a report.
pub(super) type Text =
    unsafe extern "C" fn(u64, unsafe extern "C" fn(*mut c_void, *const c_char), *mut c_void);

impl Report {
    pub(super) fn new(kind: String, thread: u64, number: u64, text: Text) -> Self {
        Self { kind, thread, number, text }
    }

    /// What happened, in which places. The first one takes a moment: addresses become lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // SAFETY: a function of the library, which is never unloaded; `take` knows what it is
        // given.
        unsafe { (self.text)(self.number, take, (&raw mut text).cast()) };
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// # Safety
/// The first is a string of ours, the second a text that ends with a zero.
unsafe extern "C" fn take(to: *mut c_void, text: *const c_char) {
    // SAFETY: the first is a string of ours, the second a text that ends with a zero, as the caller
    // promises.
    let to = unsafe { &mut *to.cast::<String>() };
    // SAFETY: the first is a string of ours, the second a text that ends with a zero, as the caller
    // promises.
    *to = unsafe { string(text) };
}
