//! [`Service`]: what is answered to the calls of clients.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_device::async_stream::feed;
use arrow_device::{Array, Batch, Error};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_flight::v60::{ErrorExt as _, FlightMessages, FlightReader};
use arrow_device_ipc::ReadOptions;
use arrow_flight_60::flight_service_server::FlightService;
use arrow_flight_60::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaAsIpc, SchemaResult, Ticket,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::flights::{Flight, Flights};
use super::inbox::{self, Inbox};
use crate::failure::{Failure, Outcome};
use crate::files;

/// How many calls move data at once.
pub(super) const AT_ONCE: usize = 64;
/// How much of a wrong name is told back.
const MOST_OF_A_NAME: usize = 100;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) flights: Arc<Flights>,
    pub(super) inbox: Option<Arc<Inbox>>,
    /// How what comes in is read.
    pub(super) options: ReadOptions,
    /// One for each call that moves data.
    pub(super) permits: Arc<Semaphore>,
    pub(super) limits: Limits,
}

/// How long calls are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long a call waits until fewer others move data.
    waiting: Duration,
    /// How long a client that puts may take for its next message.
    silence: Duration,
}

impl Limits {
    pub(super) fn new(silence: Duration) -> Self {
        Self { waiting: Duration::from_secs(60), silence }
    }
}

impl Service {
    fn find(&self, name: &str) -> Result<Arc<Flight>, Status> {
        self.flights.get(name).ok_or_else(|| {
            let name: String = name.chars().take(MOST_OF_A_NAME).collect();
            Status::not_found(format!(
                "there is no flight {name:?}; ListFlights names all there are"
            ))
        })
    }

    fn described(&self, descriptor: &FlightDescriptor) -> Result<Arc<Flight>, Status> {
        self.find(name_of(descriptor)?)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        match timeout(self.limits.waiting, self.permits.clone().acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Status::unavailable("the server ends")),
            Err(_) => {
                let message = format!("{AT_ONCE} calls move data already; ask again later");
                Err(Status::resource_exhausted(message))
            }
        }
    }

    /// What a client sends next, which it has to do before long: its call keeps others out, and
    /// the server from ending.
    async fn sent<T>(&self, next: impl Future<Output = T>) -> Result<T, Status> {
        let silence = self.limits.silence;
        timeout(silence, next).await.map_err(|_| {
            let seconds = silence.as_secs();
            Status::deadline_exceeded(format!("no message came for {seconds} seconds"))
        })
    }
}

/// The one part of the path of a descriptor.
fn name_of(descriptor: &FlightDescriptor) -> Result<&str, Status> {
    match descriptor.path.as_slice() {
        [name] => Ok(name),
        _ => Err(Status::invalid_argument("a flight is named by a path of one part, its name")),
    }
}

fn internal(failure: impl Into<Failure>) -> Status {
    Status::internal(failure.into().to_string())
}

/// Calls something that blocks, on a thread for that. What fails is printed here, and the client is
/// told something else, because paths of the server are nobody's business.
async fn blocking<T: Send + 'static>(
    told: &'static str,
    call: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Result<T, Status> {
    match spawn_blocking(call).await {
        Ok(outcome) => outcome.map_err(|failure| {
            // There is nobody to tell if this fails.
            let _ = writeln!(std::io::stderr(), "arrow-device: {told}: {failure}");
            Status::unavailable(told)
        }),
        Err(_) => Err(Status::internal("the call failed")),
    }
}

/// Messages, for as long as which a call counts.
struct Permitted {
    messages: Answers<FlightData>,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Permitted {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.as_mut().poll_next(context)
    }
}

/// The messages of a flight.
async fn messages(flight: Arc<Flight>) -> Result<Answers<FlightData>, Status> {
    if let Some(held) = &flight.held {
        let arrays = tokio_stream::iter(held.clone().into_iter().map(Ok));
        let messages = FlightMessages::new(&flight.schema, arrays).map_err(Error::into_status)?;
        return Ok(Box::pin(messages.prefetch(1).statuses()));
    }
    let told = "the file of the flight cannot be read any more";
    let source = blocking(told, move || files::open(&flight.path)).await?;
    let (feeder, arrays) = feed(source.batches.map(|batch| batch.map(Array::from)), 1);
    let messages = FlightMessages::new(&source.schema, arrays).map_err(Error::into_status)?;
    // Ends when the messages are dropped, too.
    spawn_blocking(move || feeder.run());
    Ok(Box::pin(messages.statuses()))
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight_60::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        if !request.into_inner().expression.is_empty() {
            return Err(Status::unimplemented("flights are listed without criteria"));
        }
        let flights = self.flights.all().into_iter();
        let infos = flights.map(|flight| flight.info().map_err(internal));
        Ok(Response::new(Box::pin(tokio_stream::iter(infos.collect::<Vec<_>>()))))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let flight = self.described(request.get_ref())?;
        flight.info().map(Response::new).map_err(internal)
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let flight = self.described(request.get_ref())?;
        let schema = flight.schema.to_arrow().map_err(Error::into_status)?;
        let options = arrow_ipc::writer::IpcWriteOptions::default();
        let result = SchemaResult::try_from(SchemaAsIpc::new(&schema, &options));
        result.map(Response::new).map_err(internal)
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let flight = self.find(&String::from_utf8_lossy(&request.get_ref().ticket))?;
        let permit = self.permit().await?;
        let messages = messages(flight).await?;
        Ok(Response::new(Box::pin(Permitted { messages, _permit: permit })))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let Some(folder) = &self.inbox else {
            return Err(Status::permission_denied("this server takes no flights"));
        };
        let permit = self.permit().await?;
        let mut reader = FlightReader::new(request.into_inner(), self.options.clone());
        let schema = self.sent(reader.schema()).await?.map_err(Error::into_status)?;
        let descriptor = reader.descriptor().cloned().unwrap_or_default();
        let name = name_of(&descriptor)?;
        if self.flights.get(name).is_some() {
            return Err(inbox::taken());
        }
        let incoming = folder.begin(name, &schema)?;
        let mut arrays = reader.arrays();
        while let Some(array) = self.sent(arrays.next()).await? {
            let batch = array.and_then(Batch::try_from).map_err(Error::into_status)?;
            if !incoming.write(batch).await {
                break;
            }
        }
        // A request that was cancelled ends here like one that is complete. The task of a cancelled
        // request is dropped where it next waits, so it waits once before the file gets its name.
        tokio::task::yield_now().await;
        let flights = self.flights.clone();
        // From here on the client changes nothing by going away: a file that gets its name is a
        // flight, too.
        let kept = tokio::spawn(async move {
            let path = incoming.path.clone();
            incoming.finish().await?;
            let told = "the flight was written, and cannot be read";
            let added = blocking(told, move || flights.add(Flight::open(&path, None)?)).await;
            drop(permit);
            added
        });
        kept.await.map_err(|_| Status::internal("the call failed"))??;
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(PutResult::default())]))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented("there is no handshake; a token is sent with each call"))
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("every flight is there; ask GetFlightInfo"))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("this server exchanges nothing"))
    }

    async fn do_action(
        &self,
        _: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        Err(Status::unimplemented("this server has no actions"))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        Ok(Response::new(Box::pin(tokio_stream::empty())))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use arrow_flight_60::flight_service_client::FlightServiceClient;
    use arrow_flight_60::flight_service_server::FlightServiceServer;
    use tonic::Code;
    use tonic::transport::server::TcpIncoming;
    use tonic::transport::{Endpoint, Server};

    use super::*;

    /// A service without flights that moves data for so many calls at once.
    pub(in super::super) fn service(permits: usize) -> Service {
        service_with(permits, Limits { waiting: LONG, silence: LONG })
    }

    fn service_with(permits: usize, limits: Limits) -> Service {
        let inbox = Inbox::open(&std::env::temp_dir()).unwrap();
        Service {
            flights: Arc::default(),
            inbox: Some(Arc::new(inbox)),
            options: ReadOptions::new(),
            permits: Arc::new(Semaphore::new(permits)),
            limits,
        }
    }

    /// A service with this many places, and one flight, `f`, that is in memory.
    pub(in crate::serve) fn service_of(permits: usize, batch: Batch) -> Service {
        let service = service(permits);
        let (schema, held) = (batch.schema().unwrap(), Some(vec![batch.into()]));
        let flight = Flight { name: "f".to_owned(), path: "f".into(), schema, held };
        service.flights.add(flight).unwrap();
        service
    }

    pub(in crate::serve) fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().build().unwrap().block_on(future)
    }

    pub(in crate::serve) const SHORT: Duration = Duration::from_millis(1);
    pub(in crate::serve) const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_call_that_finds_no_room_is_refused_in_the_end() {
        let service = service_with(0, Limits { waiting: SHORT, silence: LONG });
        let refused = run(service.permit()).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_client_that_puts_nothing_gives_its_place_back() {
        let service = service_with(1, Limits { waiting: LONG, silence: SHORT });
        let permits = service.permits.clone();
        let refused = run(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let place = listener.local_addr().unwrap();
            let server = Server::builder().add_service(FlightServiceServer::new(service));
            tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
            let endpoint = Endpoint::from_shared(format!("http://{place}")).unwrap();
            let mut client = FlightServiceClient::new(endpoint.connect().await.unwrap());
            client.do_put(tokio_stream::pending()).await.err()
        });
        assert_eq!(refused.map(|status| status.code()), Some(Code::DeadlineExceeded));
        assert_eq!(permits.available_permits(), 1);
    }
}
