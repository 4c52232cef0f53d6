//! What the tests share: the stand-in, and a device on it.

use std::ops::Deref;

use arrow_device::Device;
use metal_stand_in::StandIn;

/// The default device of the stand-in. At the end the stand-in must have noted no mistake.
pub(crate) struct Bench {
    device: Device,
    pub(crate) stand_in: &'static StandIn,
}

impl Bench {
    /// `None` where the stand-in cannot be compiled, which is a failure where it is required.
    pub(crate) fn new() -> Option<Self> {
        let stand_in = StandIn::load()?;
        Some(Self { device: arrow_device_metal::open(0).unwrap(), stand_in })
    }
}

impl Deref for Bench {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.stand_in.mistakes(), "");
        }
    }
}
