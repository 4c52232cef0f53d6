//! The error struct, which is the caller's.

use std::ffi::{c_char, c_int};

use arrow_device::{Error, ErrorKind};

const CAPACITY: usize = 1008;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevError {
    pub code: i32,
    pub kind: i32,
    pub vendor_code: i64,
    pub message: [c_char; CAPACITY],
}

impl ArdevError {
    /// One without a message.
    pub const EMPTY: Self = Self { code: 0, kind: 0, vendor_code: 0, message: [0; CAPACITY] };

    /// The message, up to its end.
    pub fn text(&self) -> String {
        let end = self.message.iter().position(|byte| *byte == 0).unwrap_or(CAPACITY);
        // `c_char` is a signed type on some targets and an unsigned one on others.
        let bytes: Vec<u8> =
            self.message.iter().take(end).flat_map(|byte| byte.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The error as C sees it.
    pub(crate) fn of(error: &Error) -> Self {
        let vendor_code = error.vendor().map_or(0, |vendor| vendor.code);
        let (code, kind) = (error.errno(), number(error.kind()));
        let mut told = Self { code, kind, vendor_code, ..Self::EMPTY };
        copy_text(&mut told.message, &error.to_string());
        told
    }
}

/// Writes as much of the text as there is room for, whole characters and a NUL.
pub(crate) fn copy_text(room: &mut [c_char], text: &str) {
    let end = end_of_characters(text, room.len().saturating_sub(1));
    let bytes = text.bytes().take(end).map(|byte| if byte == 0 { b'?' } else { byte });
    for (place, byte) in room.iter_mut().zip(bytes.chain([0])) {
        *place = c_char::from_ne_bytes([byte]);
    }
}

/// The end of the last character that ends within so many bytes.
fn end_of_characters(text: &str, at_most: usize) -> usize {
    let end = at_most.min(text.len());
    (0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// The header's `enum ardev_kind`.
fn number(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::InvalidArgument => 0,
        ErrorKind::Malformed => 1,
        ErrorKind::Released => 2,
        ErrorKind::SchemaMismatch => 3,
        ErrorKind::InvalidData => 4,
        ErrorKind::LimitExceeded => 5,
        ErrorKind::Unsupported => 6,
        ErrorKind::DriverMissing => 7,
        ErrorKind::DeviceMissing => 8,
        ErrorKind::NotReachable => 9,
        ErrorKind::NotReady => 10,
        ErrorKind::OutOfMemory => 11,
        ErrorKind::DeviceLost => 12,
        ErrorKind::Driver => 13,
        ErrorKind::TimedOut => 14,
        ErrorKind::Cancelled => 15,
        ErrorKind::Panicked => 16,
        ErrorKind::ShutDown => 18,
        ErrorKind::WorkFailed => 19,
        // A kind that is newer than the header is somebody else's for its readers.
        _ => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        let numbers: Vec<c_int> = ErrorKind::ALL.iter().map(|kind| number(*kind)).collect();
        let expected: Vec<c_int> = (0..20).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let error = Error::new(ErrorKind::Peer, "ä".repeat(2000));
        let text = ArdevError::of(&error).text();
        assert!(text.ends_with('ä') && text.len() >= CAPACITY - 2, "{text}");
        let mut small = [1; 4];
        copy_text(&mut small, "aä€");
        let bytes = |text: [c_char; 4]| text.map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()));
        assert_eq!(bytes(small), [b'a', 0xc3, 0xa4, 0]);
        copy_text(&mut small, "a€");
        assert_eq!(bytes(small)[..2], [b'a', 0]);
    }
}
