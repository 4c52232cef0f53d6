//! [`Found`]: a device as the list of a backend has it, and the numbers of devices.

use arrow_device::{DeviceId, Error, ErrorKind, Result};

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: DeviceId,
    pub(crate) name: String,
}

/// The number of the device in this place of a list.
pub(crate) fn number(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// The place in a list of the device of this number.
pub(crate) fn index(id: DeviceId) -> Result<usize> {
    usize::try_from(id.id).map_err(|_| {
        let message = format!("there is no device number {}", id.id);
        Error::new(ErrorKind::DeviceMissing, message).on_device(id)
    })
}
