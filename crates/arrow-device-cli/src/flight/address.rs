//! [`Address`]: a server of Flight, and what is meant there.

use std::fmt::{self, Write as _};

use super::split_address;
use crate::failure::{Failure, Outcome};

/// Where a flight is: `flight://127.0.0.1:8815/data.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was written.
    text: String,
    pub(crate) is_secure: bool,
    /// The host and the port.
    pub(crate) authority: String,
    /// The flight, if one is named.
    pub(crate) name: Option<String>,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        let refused = |why: &str| {
            let message = format!("{text}: {why}, as in flight://127.0.0.1:8815/data.parquet");
            Failure::misuse(message)
        };
        let (is_secure, rest) =
            split_address(text).ok_or_else(|| refused("it is no address of a server"))?;
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(refused("name the host and the port"));
        }
        let is_odd = |letter: char| {
            letter.is_control() || letter.is_whitespace() || "@?#\\".contains(letter)
        };
        if authority.contains(is_odd) {
            return Err(refused("name the host and the port, and nothing more"));
        }
        let name = percent_decoded(name).ok_or_else(|| {
            refused("after the host, % and two digits stand for a byte of UTF-8 text (%25 for %)")
        })?;
        Ok(Self {
            text: text.to_owned(),
            is_secure,
            authority: authority.to_owned(),
            name: Some(name).filter(|name| !name.is_empty()),
        })
    }

    /// The address of the flight of this name at this server. An error where the address names a
    /// flight already.
    pub(crate) fn with_name(mut self, name: &str) -> Outcome<Self> {
        if let Some(named) = &self.name {
            return Err(Failure::misuse(format!(
                "`{named}` in the address and `{name}` behind it are two names; give one"
            )));
        }
        self.text = format!("{}/{}", self.text.trim_end_matches('/'), percent_encoded(name));
        self.name = Some(name.to_owned());
        Ok(self)
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A name as a part of an address: letters, digits and `-._~` as they are, all other bytes as `%`
/// and two digits.
pub(crate) fn percent_encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a `String` does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The name of a part of an address. `None` where a `%` stands for no byte, or the bytes are no
/// UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(16 * high + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_server_and_perhaps_a_flight() {
        let address = Address::parse("flight://127.0.0.1:8815/a%20b/%C3%A9é").unwrap();
        assert_eq!(address.authority, "127.0.0.1:8815");
        assert_eq!(address.name.as_deref(), Some("a b/éé"));
        assert!(!address.is_secure);
        let address = Address::parse("grpc+tls://[::1]:1").unwrap();
        assert_eq!((address.host(), address.name.as_deref()), ("::1", None));
        assert!(address.is_secure);
        let named = address.with_name("a b").unwrap();
        assert_eq!(named.to_string(), "grpc+tls://[::1]:1/a%20b");
        assert_eq!(Address::parse(&named.to_string()).unwrap().name.as_deref(), Some("a b"));
        assert!(named.with_name("c").is_err());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "data.parquet",
            "http://127.0.0.1:1/x",
            "flight://",
            "flight://:1",
            "flight://host",
            "flight://host:70000",
            "flight://me@host:1",
            "flight://host?x:1",
            "flight://host#x:1",
            "flight://host\\x:1",
            "flight://ho st:1",
            "flight://host:1/%",
            "flight://host:1/%4",
            "flight://host:1/%+1",
            "flight://host:1/%FF",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_name_comes_back_from_an_address() {
        for name in ["a", "a b.arrows", "../x", "données", "100%", "a?b#c", "\u{1}"] {
            assert_eq!(percent_decoded(&percent_encoded(name)).as_deref(), Some(name));
        }
    }
}
