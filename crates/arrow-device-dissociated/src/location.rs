//! [`Location`]: where a stream can be asked for, as a URI.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use arrow_device::driver::SharingDomain;
use arrow_device::{Device, Error, Result};

use crate::problem::malformed;

/// Where a server can be asked for streams, and by which tags.
///
/// The text is the URI of the specification, which a `Location` of Flight may have. Parameters that
/// are not known are ignored.
///
/// ```
/// use arrow_device_dissociated::Location;
///
/// let text = "unix:///run/data.sock?want_data=1&free_data=2";
/// let location: Location = text.parse()?;
/// assert_eq!((location.want_data, location.free_data), (1, Some(2)));
/// assert_eq!(location.to_string(), text);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// All before the parameters: the scheme says which transport, as in `unix:///run/data.sock` or
    /// `ucx://127.0.0.1:5000`.
    pub address: String,
    /// The tag of the message that asks for a stream.
    pub want_data: u64,
    /// The tag of messages that tell which addresses are free. `None` where no body has addresses.
    pub free_data: Option<u64>,
    /// What is needed to open memory, besides what comes with the messages. For transports of this
    /// crate that carry memory: the domain in which the memory is shared
    /// ([`sharing`](Self::sharing)).
    pub remote_handle: Option<Vec<u8>>,
}

impl Location {
    /// Returns a location with the tags 1 and 2, and without a handle.
    pub fn new(address: impl Into<String>) -> Self {
        let address = address.into();
        Self { address, want_data: 1, free_data: Some(2), remote_handle: None }
    }

    /// This location, whose bodies are in memory of this device that other processes can open. The
    /// handle stays `None` where the device shares no memory: then bodies travel packed.
    #[must_use]
    pub fn sharing(mut self, device: &Device) -> Self {
        self.remote_handle = device.sharing_domain().map(handle_of);
        self
    }

    /// Whether the handle names the domain of a device.
    pub(crate) fn is_domain_of(&self, device: &Device) -> bool {
        let own = device.sharing_domain().map(handle_of);
        own.is_some() && own == self.remote_handle
    }
}

/// 16 bytes that tell the device, and the way in which memory is shared as text.
fn handle_of(domain: SharingDomain) -> Vec<u8> {
    [&domain.device, domain.way.as_bytes()].concat()
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}?want_data={}", self.address, self.want_data)?;
        if let Some(tag) = self.free_data {
            write!(f, "&free_data={tag}")?;
        }
        if let Some(handle) = &self.remote_handle {
            write!(f, "&remote_handle={}", base64(handle))?;
        }
        Ok(())
    }
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (mut want, mut free, mut handle) = (None, None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let number = || {
                let wrong = |_| malformed(format!("{name} is a number of 64 bits, not `{value}`"));
                value.parse::<u64>().map_err(wrong)
            };
            let is_first = match name {
                "want_data" => want.replace(number()?).is_none(),
                "free_data" => free.replace(number()?).is_none(),
                "remote_handle" => handle.replace(from_base64(value)?).is_none(),
                _ => true,
            };
            if !is_first {
                return Err(malformed(format!("{name} comes twice")));
            }
        }
        let want_data = want.ok_or_else(|| malformed("the location has no want_data"))?;
        if free == Some(want_data) {
            return Err(malformed("want_data and free_data are one tag"));
        }
        let address = address.to_owned();
        Ok(Self { address, want_data, free_data: free, remote_handle: handle })
    }
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 for a parameter of a URI: what means something else there is written with a percent sign.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * place) & 63) as usize).copied();
            match letter.filter(|_| place <= chunk.len()).unwrap_or(b'=') {
                letter @ (b'+' | b'/' | b'=') => {
                    // Writing to a string does not fail.
                    let _ = write!(text, "%{letter:02X}");
                }
                letter => text.push(char::from(letter)),
            }
        }
    }
    text
}

/// Reads base64, with percent signs or without, of either alphabet, padded or not.
fn from_base64(text: &str) -> Result<Vec<u8>> {
    let wrong = || malformed("remote_handle is not base64");
    let mut letters = text.bytes();
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(text.len() / 4 * 3));
    while let Some(letter) = letters.next() {
        let letter = if letter == b'%' {
            let mut digit = || char::from(letters.next()?).to_digit(16);
            let (high, low) = (digit(), digit());
            let both = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(wrong)?;
            u8::try_from(both).map_err(|_| wrong())?
        } else {
            letter
        };
        let letter = match letter {
            b'=' => continue,
            b'-' => b'+',
            b'_' => b'/',
            letter => letter,
        };
        let value = LETTERS.iter().position(|known| *known == letter).ok_or_else(wrong)?;
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    if count >= 6 || bits != 0 {
        return Err(wrong());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_any_bytes_are_read_again() {
        for len in 0..70_u8 {
            let handle: Vec<u8> =
                (0..len).map(|at| at.wrapping_mul(83).wrapping_add(251)).collect();
            let location =
                Location { remote_handle: Some(handle), ..Location::new("ucx://10.0.0.1:7") };
            assert_eq!(location.to_string().parse::<Location>().unwrap(), location);
        }
        assert_eq!(base64(b"light work."), "bGlnaHQgd29yay4%3D");
        assert_eq!(from_base64("bGlnaHQgd29yay4=").unwrap(), b"light work.");
    }

    #[test]
    fn locations_without_what_they_need_are_refused() {
        for text in [
            "unix:///x",
            "unix:///x?free_data=1",
            "unix:///x?want_data=-1",
            "unix:///x?want_data=18446744073709551616",
            "unix:///x?want_data=1&want_data=2",
            "unix:///x?want_data=1&free_data=1",
            "unix:///x?want_data=1&remote_handle=%4",
            "unix:///x?want_data=1&remote_handle=A",
            "unix:///x?want_data=1&remote_handle=AB",
            "unix:///x?want_data=1&remote_handle=%C3%A4",
        ] {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
        let known: Location = "a?later=5&want_data=7".parse().unwrap();
        assert_eq!((known.want_data, known.free_data), (7, None));
    }
}
