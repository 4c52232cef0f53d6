//! [`Connection`]: a client of a server of Flight, which blocks its caller.
//!
//! The runtime has a thread of its own, so that the connection answers its peer while the caller
//! does something else. It reads ahead no more than HTTP/2 allows.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use arrow_device::Error;
use arrow_device_flight::v60::ErrorExt as _;
use arrow_device_ipc::ReadOptions;
use arrow_flight_60::flight_service_client::FlightServiceClient;
use arrow_flight_60::{Criteria, FlightDescriptor, FlightInfo, Ticket};
use clap::ArgMatches;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::StreamExt as _;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, IntoRequest, Request};

use super::{Address, split_address, token};
use crate::failure::{Failure, Outcome};

/// How long a server may take to answer the first call of the network.
const CONNECTING: Duration = Duration::from_secs(20);
/// How often a connection that says nothing is asked whether its other side is there.
const ALIVE: Duration = Duration::from_secs(30);
/// More flights than this are no list for people.
const MOST_FLIGHTS: usize = 100_000;
/// Names of more bytes than this are no list either.
const MOST_OF_NAMES: usize = 64 << 20;
/// How many times the largest message the buffers of one message may have, once they are unpacked,
/// and all dictionaries together.
const UNPACKED: u64 = 4;

/// What a server has to be told, and what is taken from it.
#[derive(Clone, Default)]
pub(crate) struct Access {
    token: Option<String>,
    /// The certificate of the authority, in PEM.
    authority: Option<Vec<u8>>,
    /// In bytes.
    max_message: usize,
}

impl Access {
    /// What the options of a client say.
    pub(crate) fn of(matches: &ArgMatches) -> Outcome<Self> {
        let authority = matches.get_one::<PathBuf>("tls-ca");
        let authority = authority.map(|path| {
            std::fs::read(path).map_err(|error| Failure::from(error).during(path.display()))
        });
        let mib = matches.get_one::<u32>("max-message").copied().unwrap_or(64);
        Ok(Self {
            token: token(matches)?,
            authority: authority.transpose()?,
            max_message: (mib as usize) << 20,
        })
    }

    /// Drops the certificate authority: in a copy between two servers, it is for the other server,
    /// and this one has no TLS.
    pub(crate) fn leave_authority(&mut self) {
        self.authority = None;
    }
}

/// The token is not shown.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("max_message", &self.max_message).finish_non_exhaustive()
    }
}

/// How what comes from the other side is read, in messages of at most so many bytes: all of it is
/// checked, because everything else takes it as it is.
pub(crate) fn checked(max_message: usize) -> ReadOptions {
    let most = UNPACKED * max_message as u64;
    ReadOptions::new().validate(true).max_unpacked(most).max_dictionaries(most)
}

/// A server that answered.
pub(crate) struct Connection {
    pub(super) runtime: Runtime,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    max_message: usize,
}

impl Connection {
    pub(crate) fn open(address: &Address, access: &Access) -> Outcome<Self> {
        let opened = Self::connect(address, access);
        opened.map_err(|failure| failure.of_peer().during(address))
    }

    pub(super) fn connect(address: &Address, access: &Access) -> Outcome<Self> {
        let scheme = if address.is_secure { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{}", address.authority))?;
        let endpoint = endpoint.connect_timeout(CONNECTING).tcp_keepalive(Some(ALIVE));
        let endpoint = match (&access.authority, address.is_secure) {
            (Some(authority), true) => {
                let authority = Certificate::from_pem(authority);
                let tls = ClientTlsConfig::new().ca_certificate(authority);
                endpoint.tls_config(tls.domain_name(address.host()))?
            }
            (None, false) => endpoint,
            (None, true) => {
                return Err(Failure::misuse(
                    "name the certificate by which the server is known with --tls-ca",
                ));
            }
            (Some(_), false) => {
                return Err(Failure::misuse(
                    "--tls-ca is for servers with TLS, whose addresses begin with flight+tls://",
                ));
            }
        };
        let bearer = access.token.as_ref().map(|token| format!("Bearer {token}").parse());
        let mut token: Option<MetadataValue<Ascii>> = bearer.transpose()?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let channel = runtime.block_on(endpoint.connect());
        let channel = channel.map_err(|error| Failure::from(error).during("no connection"))?;
        Ok(Self { runtime, channel, token, max_message: access.max_message })
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(super) fn client(&self) -> FlightServiceClient<Channel> {
        FlightServiceClient::new(self.channel()).max_decoding_message_size(self.max_message)
    }

    pub(super) fn options(&self) -> ReadOptions {
        checked(self.max_message)
    }

    /// The call, with the token.
    pub(super) fn request<T>(&self, message: impl IntoRequest<T>) -> Request<T> {
        let mut request = message.into_request();
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// What is kept of all flights that the server lists, each with the length of its name.
    pub(crate) fn list<T>(&self, keep: impl Fn(FlightInfo) -> (usize, T)) -> Outcome<Vec<T>> {
        let mut client = self.client();
        self.runtime.block_on(async {
            let answer = client.list_flights(self.request(Criteria::default())).await;
            let mut answers = answer.map_err(Error::from_status)?.into_inner();
            let (mut flights, mut bytes) = (Vec::new(), 0);
            while let Some(flight) = answers.next().await {
                let (length, kept) = keep(flight.map_err(Error::from_status)?);
                bytes += length;
                flights.push(kept);
                if flights.len() > MOST_FLIGHTS || bytes > MOST_OF_NAMES {
                    return Err(Failure::new(format!(
                        "the server lists more than {MOST_FLIGHTS} flights, or {MOST_OF_NAMES} bytes of names"
                    )));
                }
            }
            Ok(flights)
        })
    }

    /// The tickets of a flight. A server that says nothing of its flights is asked with the name
    /// as the ticket.
    pub(super) fn tickets(&self, address: &Address, name: &str) -> Outcome<Vec<Ticket>> {
        let mut client = self.client();
        let descriptor = FlightDescriptor::new_path(vec![name.to_owned()]);
        let asked = client.get_flight_info(self.request(descriptor));
        let info = match self.runtime.block_on(asked) {
            Ok(info) => info.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => {
                return Ok(vec![Ticket::new(name.to_owned())]);
            }
            Err(status) => return Err(Error::from_status(status).into()),
        };
        let mut tickets = Vec::new();
        let has_locations = info.endpoint.iter().any(|endpoint| !endpoint.location.is_empty());
        let here = if has_locations { places_of(address) } else { Vec::new() };
        for endpoint in info.endpoint {
            let locations = endpoint.location;
            let is_here = locations.iter().any(|location| is_of(&location.uri, address, &here));
            if let (Some(elsewhere), false) = (locations.first(), is_here) {
                return Err(Failure::new(format!(
                    "a part of `{name}` lies on another server, {}, which is not asked for it",
                    elsewhere.uri
                )));
            }
            tickets.extend(endpoint.ticket);
        }
        if tickets.is_empty() {
            return Err(Failure::new(format!("the server has no ticket for `{name}`")));
        }
        Ok(tickets)
    }
}

/// Where the server of an address is. Empty where its name is not known here.
fn places_of(address: &Address) -> Vec<SocketAddr> {
    address.authority.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

/// Whether a location is the server of this address, which is at these places. No name of a host
/// that the server chose is looked up.
fn is_of(location: &str, address: &Address, places: &[SocketAddr]) -> bool {
    if location.starts_with("arrow-flight-reuse-connection:") {
        return true;
    }
    let Some((is_secure, rest)) = split_address(location) else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    if is_secure != address.is_secure {
        return false;
    }
    if authority == address.authority {
        return true;
    }
    if let Ok(place) = authority.parse::<SocketAddr>() {
        return places.contains(&place);
    }
    let local = authority.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    local.is_some_and(|port| {
        places.contains(&(Ipv4Addr::LOCALHOST, port).into())
            || places.contains(&(Ipv6Addr::LOCALHOST, port).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_the_server_whatever_it_is_called() {
        let address = Address::parse("flight://127.0.0.1:8815/x").unwrap();
        let named = Address::parse("flight://localhost:8815/x").unwrap();
        for location in [
            "grpc://127.0.0.1:8815",
            "grpc+tcp://127.0.0.1:8815/",
            "grpc://localhost:8815",
            "arrow-flight-reuse-connection://?",
        ] {
            assert!(is_of(location, &address, &places_of(&address)), "{location}");
            let places = [(Ipv4Addr::LOCALHOST, 8815).into()];
            assert!(is_of(location, &named, &places), "{location}");
        }
        for location in [
            "grpc://127.0.0.1:8816",
            "grpc://127.0.0.2:8815",
            "grpc://localhost:8816",
            "grpc+tls://127.0.0.1:8815",
            "s3://bucket/x",
            "",
            "grpc://",
        ] {
            assert!(!is_of(location, &address, &places_of(&address)), "{location}");
        }
        let places = ["10.0.0.1:8815".parse().unwrap()];
        let other = Address::parse("flight://other:8815").unwrap();
        assert!(is_of("grpc://10.0.0.1:8815", &other, &places));
        assert!(!is_of("grpc://localhost:8815", &other, &places));
    }

    #[test]
    fn access_shows_no_token() {
        let access = Access { token: Some("s3cret".into()), ..Access::default() };
        assert!(!format!("{access:?}").contains("s3cret"));
    }
}
