//! Parses device types and ids.

use std::str::FromStr;

use super::{DeviceId, DeviceType};
use crate::{Error, ErrorKind};

impl FromStr for DeviceType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::KNOWN.iter().find(|(_, name)| *name == text);
        known.map(|(device_type, _)| *device_type).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("`{text}` is no device type; `cuda` is one"),
            )
        })
    }
}

impl FromStr for DeviceId {
    type Err = Error;

    /// Parses `cpu`, `cuda` (the first CUDA device) or `cuda:1`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let Some((name, number)) = text.split_once(':') else {
            let device_type = text.parse()?;
            return Ok(if device_type == DeviceType::CPU {
                Self::CPU
            } else {
                Self::new(device_type, 0)
            });
        };
        let id = number.parse().map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("`{number}` is no device number; `cuda:1` has one"),
            )
        })?;
        Ok(Self::new(name.parse()?, id))
    }
}
