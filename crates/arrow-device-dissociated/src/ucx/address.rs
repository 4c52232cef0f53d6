//! Addresses of sockets, as UCX takes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use arrow_device::Result;

use super::api::SocketAddress;
use crate::problem::{failed, unsupported};

/// `AF_INET` and `AF_INET6` of Linux.
const FAMILIES: (u16, u16) = (2, 10);

/// A `struct sockaddr_in` or `sockaddr_in6`.
#[repr(C, align(8))]
pub(super) struct RawAddress {
    bytes: [u8; 28],
    len: u32,
}

impl RawAddress {
    pub(super) fn of(address: SocketAddr) -> Self {
        let mut bytes = address.port().to_be_bytes().to_vec();
        let family = match address {
            SocketAddr::V4(address) => {
                bytes.extend(address.ip().octets());
                bytes.extend([0; 8]);
                FAMILIES.0
            }
            SocketAddr::V6(address) => {
                bytes.extend(address.flowinfo().to_be_bytes());
                bytes.extend(address.ip().octets());
                bytes.extend(address.scope_id().to_ne_bytes());
                FAMILIES.1
            }
        };
        let mut raw = Self { bytes: [0; 28], len: bytes.len() as u32 + 2 };
        let all = family.to_ne_bytes().into_iter().chain(bytes);
        raw.bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        raw
    }

    /// The address for a call, as long as this value stays.
    pub(super) fn as_ucx(&self) -> SocketAddress {
        SocketAddress { address: self.bytes.as_ptr().cast(), len: self.len }
    }
}

/// Reads a `struct sockaddr_storage`.
pub(super) fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (family, port) = (u16::from_ne_bytes(*family), u16::from_be_bytes(*port));
    if family == FAMILIES.0 {
        return Some((Ipv4Addr::from(*rest.first_chunk::<4>()?), port).into());
    }
    let (_flow, rest) = rest.split_first_chunk::<4>()?;
    let ip = Ipv6Addr::from(*rest.first_chunk::<16>()?);
    (family == FAMILIES.1).then_some((IpAddr::V6(ip), port).into())
}

/// Finds the address of `host:port`.
pub(super) fn resolve(text: &str) -> Result<SocketAddr> {
    let mut found = text.to_socket_addrs().map_err(|error| failed(text, error))?;
    found.next().ok_or_else(|| failed(text, "the host has no address"))
}

/// The `host:port` of a location.
pub(super) fn of_location(address: &str) -> Result<&str> {
    address.strip_prefix("ucx://").map(|rest| rest.trim_end_matches('/')).ok_or_else(|| {
        unsupported(format!("`{address}` is no location of UCX, as ucx://127.0.0.1:5000 is"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        for text in ["127.0.0.1:5000", "0.0.0.0:0", "[::1]:65535", "[2001:db8::7]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            let raw = RawAddress::of(address);
            assert_eq!(read(&raw.bytes), Some(address));
            assert_eq!(raw.len, if address.is_ipv4() { 16 } else { 28 });
        }
        assert_eq!(read(&[0; 28]), None);
        assert_eq!(of_location("ucx://10.0.0.1:7/").unwrap(), "10.0.0.1:7");
        assert!(of_location("unix:///x").is_err() && resolve("127.0.0.1").is_err());
    }
}
