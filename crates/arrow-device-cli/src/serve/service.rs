//! [`Service`]: what is answered to the calls of clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
        let permit = self.permits.clone().acquire_owned().await;
        permit.map_err(|_| Status::unavailable("the server ends"))
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

/// Calls something that blocks, on a thread for that.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Result<T, Status> {
    match spawn_blocking(call).await {
        Ok(outcome) => outcome.map_err(internal),
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
    let source = blocking(move || files::open(&flight.path)).await?;
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
        let _permit = self.permit().await?;
        let mut reader = FlightReader::new(request.into_inner(), self.options.clone());
        let schema = reader.schema().await.map_err(Error::into_status)?;
        let descriptor = reader.descriptor().cloned().unwrap_or_default();
        let name = name_of(&descriptor)?;
        if self.flights.get(name).is_some() {
            return Err(inbox::taken());
        }
        let incoming = folder.begin(name, &schema)?;
        let mut arrays = reader.arrays();
        while let Some(array) = arrays.next().await {
            let batch = array.and_then(Batch::try_from).map_err(Error::into_status)?;
            if !incoming.write(batch).await {
                break;
            }
        }
        // A request that was cancelled ends here like one that is complete. The task of a cancelled
        // request is dropped where it next waits, so it waits once before the file gets its name.
        tokio::task::yield_now().await;
        let path = incoming.path.clone();
        incoming.finish().await?;
        let flights = self.flights.clone();
        blocking(move || flights.add(Flight::open(&path, None)?)).await?;
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
