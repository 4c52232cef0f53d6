//! The codes that the functions return. The two vendors use the same numbers.

/// The result of every function: 0 for success.
pub type Code = i32;

/// Whether a call succeeded.
pub fn ok(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const INVALID_DEVICE_POINTER: Code = 17;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const OPERATING_SYSTEM: Code = 304;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
pub(crate) const TOO_MANY_PEERS: Code = 711;
pub(crate) const NOT_SUPPORTED: Code = 801;
