//! The server itself.

use std::future::poll_fn;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use arrow_flight_60::flight_service_server::FlightServiceServer;
use clap::ArgMatches;
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};
use tokio_stream::StreamExt as _;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use super::audible;
use super::closable::Closable;
use super::flights::{Flight, Flights};
use super::inbox::Inbox;
use super::service::{AT_ONCE, Limits, Service};
use super::taken::Taken;
use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use crate::flight::{self, percent_encoded};
use crate::json::Json;
use crate::{signals, units};

/// How often somebody looks whether the server is to end.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often a connection that says nothing is asked whether its other side is there.
const ALIVE: Duration = Duration::from_secs(30);
/// How long the other side may take to answer that, and to agree on TLS.
const ANSWER: Duration = Duration::from_secs(20);
/// How long nothing may come on a connection: longer than an answer takes to come.
const SILENCE: Duration = Duration::from_secs(60);
/// How long flights that have come may take to become files at the end.
const KEEPING: Duration = Duration::from_secs(10);

/// What a server is told on its start.
struct Settings {
    token: Option<String>,
    identity: Option<Identity>,
    max_message: usize,
    inbox: Option<Arc<Inbox>>,
    /// How long a client may move nothing.
    idle: Duration,
}

pub(super) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let settings = Settings::of(matches)?;
    let name = matches.get_one::<String>("device");
    let opened = name.map(|name| backends::open(Name::parse(name)?)).transpose()?;
    let flights = Arc::new(Flights::default());
    let mut given = Vec::new();
    for path in matches.get_many::<PathBuf>("FILE").unwrap_or_default() {
        let flight = Flight::open(path, opened.as_ref())?;
        given.push(flight.name.clone());
        flights.add(flight)?;
    }
    let place = matches.get_one::<String>("listen").map_or("", String::as_str);
    let listener = listen(place).map_err(|failure| failure.during(place))?;
    let scheme = if settings.identity.is_some() { "flight+tls" } else { "flight" };
    let server = Told { address: format!("{scheme}://{}", listener.local_addr()?), flights, given };

    let stopped = signals::watch()?;
    let device = opened.as_ref().map(|opened| opened.name.to_string());
    if matches.get_flag("json") {
        writeln!(out, "{}", server.to_json(device, &settings))?;
    } else {
        server.tell(device, out)?;
    }
    // Whoever reads this may connect now.
    out.flush()?;
    serve(listener, server.flights, settings, &stopped)?;

    arrow_device::deferred::wait_until_released(Duration::from_secs(10))?;
    opened.map_or(Ok(()), Opened::finish)?;
    if stopped.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted, and nothing is served any more"));
    }
    Ok(ExitCode::SUCCESS)
}

impl Settings {
    fn of(matches: &ArgMatches) -> Outcome<Self> {
        let read = |name| -> Outcome<Option<Vec<u8>>> {
            let Some(path) = matches.get_one::<PathBuf>(name) else { return Ok(None) };
            let read = std::fs::read(path);
            read.map(Some).map_err(|error| Failure::from(error).during(path.display()))
        };
        let identity = match (read("tls-cert")?, read("tls-key")?) {
            (Some(certificate), Some(key)) => Some(Identity::from_pem(certificate, key)),
            _ => None,
        };
        let inbox = matches.get_one::<PathBuf>("put-to").map(|folder| Inbox::open(folder));
        let mib = matches.get_one::<u32>("max-message").copied().unwrap_or(64);
        let idle = matches.get_one::<u32>("idle-timeout").copied().unwrap_or(300);
        Ok(Self {
            token: flight::token(matches)?,
            identity,
            max_message: (mib as usize) << 20,
            inbox: inbox.transpose()?.map(Arc::new),
            idle: Duration::from_secs(idle.into()),
        })
    }
}

/// Takes the first of the addresses of a place that can be had.
fn listen(place: &str) -> Outcome<TcpListener> {
    let addresses: Vec<SocketAddr> = match place.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            let message = format!("it is no address and port, such as 127.0.0.1:8815 ({error})");
            return Err(Failure::misuse(message));
        }
    };
    let listener = TcpListener::bind(addresses.as_slice());
    listener.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(format!(
            "somebody listens there already; name another port, or 0 ({error})"
        )),
        _ => error.into(),
    })
}

/// Serves until it is told to stop and the calls that have begun are done.
fn serve(
    listener: TcpListener,
    flights: Arc<Flights>,
    settings: Settings,
    stopped: &Arc<AtomicBool>,
) -> Outcome<()> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let service = Service {
        flights,
        inbox: settings.inbox,
        options: flight::checked(settings.max_message),
        permits: permits.clone(),
        limits: Limits::new(settings.idle),
    };
    let service = FlightServiceServer::new(service).max_decoding_message_size(settings.max_message);
    let service = Taken::new(service, settings.idle);
    let expected = settings.token.map(|token| format!("Bearer {token}"));
    let check = move |request: Request<()>| check(request, expected.as_deref());
    let service = InterceptedService::new(service, check);

    // Each call that moves data has a thread that reads or writes its file.
    let threads = 2 * AT_ONCE;
    let runtime = Builder::new_multi_thread();
    let runtime =
        { runtime }.worker_threads(2).max_blocking_threads(threads).enable_all().build()?;
    let (ended, idle) = (Notify::new(), settings.idle);
    let served = runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let incoming = incoming.with_keepalive(Some(ALIVE));
        let incoming = incoming.map(|stream| stream.map(Closable::new));
        let incoming = audible::all(incoming, SILENCE);
        // Without this a client that was suspended keeps the server from ending: it never says that
        // its connection may close.
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(ALIVE))
            .http2_keepalive_timeout(Some(ANSWER));
        if let Some(identity) = settings.identity {
            let tls = ServerTlsConfig::new().identity(identity).timeout(ANSWER);
            server = server.tls_config(tls)?;
        }
        let until = async {
            while !stopped.load(Ordering::Relaxed) {
                tokio::time::sleep(PATIENCE).await;
            }
            let busy = AT_ONCE.saturating_sub(permits.available_permits()) as u64;
            if busy > 0 {
                let calls = units::counted(busy, "call", "calls");
                // There is nobody to tell if this fails.
                let _ = writeln!(
                    std::io::stderr(),
                    "arrow-device: {calls} will be done first; a second signal ends it at once"
                );
            }
            ended.notify_one();
        };
        let all = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        // A client that leaves the last bytes of a call where they are keeps its connection, which
        // nobody waits for without end.
        let too_late = async {
            ended.notified().await;
            drop(permits.acquire_many(all).await);
            tokio::time::sleep(idle).await;
        };
        let served = server.add_service(service).serve_with_incoming_shutdown(incoming, until);
        first_of(served, too_late).await.transpose()?;
        // A flight whose client went away at its end becomes a file without a connection.
        let _ = tokio::time::timeout(KEEPING, permits.acquire_many(all)).await;
        Ok(())
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// What a future gives, unless another one is ready before.
async fn first_of<T>(wanted: impl Future<Output = T>, end: impl Future<Output = ()>) -> Option<T> {
    let (mut wanted, mut end) = (pin!(wanted), pin!(end));
    poll_fn(|context| match wanted.as_mut().poll(context) {
        Poll::Ready(given) => Poll::Ready(Some(given)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Refuses a call without the token.
fn check(request: Request<()>, expected: Option<&str>) -> Result<Request<()>, Status> {
    let Some(expected) = expected else { return Ok(request) };
    let sent = request.metadata().get("authorization").map(|sent| sent.as_bytes());
    match sent {
        Some(sent) if is_same(sent, expected.as_bytes()) => Ok(request),
        Some(_) => Err(Status::unauthenticated("the token is another one")),
        None => Err(Status::unauthenticated("a token is needed")),
    }
}

/// Whether two texts are the same, in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// What is said of a server that runs.
struct Told {
    address: String,
    flights: Arc<Flights>,
    /// The names, in the order in which the files were given.
    given: Vec<String>,
}

impl Told {
    fn tell(&self, device: Option<String>, out: &mut dyn Write) -> Outcome<()> {
        for flight in self.given.iter().filter_map(|name| self.flights.get(name)) {
            let columns = units::counted(flight.schema.columns().len() as u64, "column", "columns");
            let held = match (&flight.held, &device) {
                (Some(held), Some(device)) => format!(
                    ", {} in {} on {device}",
                    units::counted(flight.rows().unwrap_or(0), "row", "rows"),
                    units::counted(held.len() as u64, "batch", "batches")
                ),
                _ => String::new(),
            };
            writeln!(out, "{}: {columns}{held}", flight.path.display())?;
        }
        writeln!(out, "{}", self.address)?;
        Ok(())
    }

    fn to_json(&self, device: Option<String>, settings: &Settings) -> Json {
        let flights = self.given.iter().filter_map(|name| self.flights.get(name));
        Json::Object(vec![
            ("address", self.address.as_str().into()),
            ("device", Json::or_null(device)),
            ("token", settings.token.is_some().into()),
            ("tls", settings.identity.is_some().into()),
            ("takes_flights", settings.inbox.is_some().into()),
            (
                "flights",
                Json::list(flights, |flight| {
                    let address = format!("{}/{}", self.address, percent_encoded(&flight.name));
                    Json::Object(vec![
                        ("name", flight.name.as_str().into()),
                        ("source", flight.path.display().to_string().into()),
                        ("address", address.into()),
                        ("columns", flight.schema.columns().len().into()),
                        ("batches", Json::or_null(flight.held.as_ref().map(Vec::len))),
                        ("rows", Json::or_null(flight.rows())),
                    ])
                }),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Batch, DataType};
    use arrow_flight_60::Ticket;
    use arrow_flight_60::flight_service_client::FlightServiceClient;
    use tonic::transport::Endpoint;

    use super::super::service::tests::{run, service_of};
    use super::*;

    #[test]
    fn a_client_that_leaves_its_last_bytes_keeps_no_server_from_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let numbers = Array::from_values(DataType::Int64, vec![Some(7_i64); 1000]).unwrap();
        let batch = Batch::from_columns([("n", numbers)]).unwrap();
        let flights = service_of(1, batch).flights;
        let idle = Duration::from_millis(50);
        let settings =
            Settings { token: None, identity: None, max_message: 1 << 20, inbox: None, idle };
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let served = std::thread::spawn(move || serve(listener, flights, settings, &stopped));
        run(async {
            let endpoint = Endpoint::from_shared(format!("http://{place}")).unwrap();
            // All of the answer fits into what the server holds for the client, which takes a byte.
            let endpoint = endpoint.initial_stream_window_size(1);
            let mut client = FlightServiceClient::new(endpoint.connect().await.unwrap());
            let answer = client.do_get(Ticket::new("f")).await;
            stop.store(true, Ordering::Relaxed);
            let ended = tokio::task::spawn_blocking(|| served.join().unwrap()).await.unwrap();
            assert!(ended.is_ok());
            drop((answer, client));
        });
    }

    #[test]
    fn a_call_needs_the_token_if_there_is_one() {
        let with = |header: Option<&str>, expected: Option<&str>| {
            let mut request = Request::new(());
            if let Some(header) = header {
                request.metadata_mut().insert("authorization", header.parse().unwrap());
            }
            check(request, expected).is_ok()
        };
        assert!(with(None, None) && with(Some("Bearer x"), None));
        assert!(with(Some("Bearer x"), Some("Bearer x")));
        for header in
            [None, Some(""), Some("x"), Some("Bearer y"), Some("Bearer xx"), Some("Bearer ")]
        {
            assert!(!with(header, Some("Bearer x")), "{header:?}");
        }
    }
}
