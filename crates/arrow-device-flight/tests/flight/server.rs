//! A server of tables, made of this crate and tonic.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, Error, ErrorKind, Queue, Result};
use arrow_device_flight::v60::{ErrorExt as _, FlightMessages, FlightReader};
use arrow_device_ipc::ReadOptions;
use arrow_flight_60::flight_service_client::FlightServiceClient;
use arrow_flight_60::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight_60::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::support::{Table, all};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The tables, and what became of the calls.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    pub(crate) tables: Arc<Mutex<HashMap<String, Table>>>,
    /// Where what is put is kept, and where it is answered from. `None` is the host.
    pub(crate) queue: Option<Queue>,
    /// How many arrays the endless table has made.
    pub(crate) made: Arc<AtomicUsize>,
    /// How many calls that receive arrays have come to the end of them.
    pub(crate) ended: Arc<AtomicUsize>,
    /// How many calls are over, in whatever way.
    pub(crate) is_gone: Arc<Dropped>,
}

/// Counts what was dropped.
#[derive(Default)]
pub(crate) struct Dropped(pub(crate) AtomicUsize);

struct Guard(Arc<Dropped>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Tables {
    pub(crate) fn put(&self, table: Table) {
        self.tables.lock().unwrap().insert(table.name.clone(), table);
    }

    /// Lets go of all tables, and waits until no connection keeps the queue.
    pub(crate) async fn until_alone(self) {
        self.tables.lock().unwrap().clear();
        for _ in 0..1000 {
            if Arc::strong_count(&self.tables) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a connection is still served after ten seconds");
    }

    fn get(&self, name: &str) -> Result<Table, Status> {
        let missing = || Status::not_found(format!("no table {name}"));
        self.tables.lock().unwrap().get(name).cloned().ok_or_else(missing)
    }

    fn answer(&self, table: &Table) -> Result<Answers<FlightData>, Status> {
        let arrays = table.arrays();
        let Some(queue) = &self.queue else {
            let messages = FlightMessages::new(&table.schema, arrays);
            return Ok(Box::pin(messages.map_err(Error::into_status)?.statuses()));
        };
        let messages = FlightMessages::new(&table.schema, arrays.copy_to(queue));
        Ok(Box::pin(messages.map_err(Error::into_status)?.prefetch(2).statuses()))
    }
}

#[tonic::async_trait]
impl FlightService for Tables {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight_60::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let token = request.metadata().get("authorization").cloned();
        let name = String::from_utf8_lossy(&request.into_inner().ticket).into_owned();
        match &*name {
            "secret" if token.is_none() => return Err(Status::unauthenticated("no token")),
            // Answers for ever, as fast as it is read.
            "endless" => {
                let table = self.get("numbers")?;
                let (made, guard) = (self.made.clone(), Guard(self.is_gone.clone()));
                let array = Array::from(table.batches[0].clone());
                let arrays = stream::repeat_with(move || {
                    let _ = &guard;
                    made.fetch_add(1, Ordering::SeqCst);
                    Ok(array.clone())
                });
                let messages = FlightMessages::new(&table.schema, arrays);
                return Ok(Response::new(Box::pin(messages.unwrap().statuses())));
            }
            // Fails in the middle.
            "broken" => {
                let table = self.get("numbers")?;
                let failure = Error::new(ErrorKind::OutOfMemory, "the pool is dry");
                let arrays = table.arrays().chain(stream::iter([Err(failure)]));
                let messages = FlightMessages::new(&table.schema, arrays);
                return Ok(Response::new(Box::pin(messages.unwrap().statuses())));
            }
            // Panics in the middle.
            "panics" => {
                let table = self.get("numbers")?;
                let planted = stream::poll_fn(|_| std::panic::resume_unwind(Box::new("planted")));
                let messages = FlightMessages::new(&table.schema, table.arrays().chain(planted));
                return Ok(Response::new(Box::pin(messages.unwrap().statuses())));
            }
            // Says more of its failure than the headers of HTTP/2 have room for.
            "verbose" => {
                let table = self.get("numbers")?;
                let failure = Error::new(ErrorKind::OutOfMemory, "ö".repeat(30_000));
                let arrays = table.arrays().chain(stream::iter([Err(failure)]));
                let messages = FlightMessages::new(&table.schema, arrays);
                return Ok(Response::new(Box::pin(messages.unwrap().statuses())));
            }
            _ => {}
        }
        let name = if name == "secret" { "numbers" } else { &*name };
        Ok(Response::new(self.answer(&self.get(name)?)?))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let _guard = Guard(self.is_gone.clone());
        let mut reader = FlightReader::new(request.into_inner(), ReadOptions::new());
        let received = async {
            let schema = reader.schema().await?;
            let descriptor = reader.descriptor().cloned().unwrap_or_default();
            let note = reader.app_metadata().clone();
            let batches = match &self.queue {
                None => all(reader.arrays()).await?,
                Some(queue) => all(reader.arrays().copy_to(queue).prefetch(2)).await?,
            };
            self.ended.fetch_add(1, Ordering::SeqCst);
            let name = descriptor.path.first().cloned().unwrap_or_default();
            self.put(Table { name, schema, batches });
            Ok::<_, Error>(note)
        };
        match received.await {
            Ok(app_metadata) => {
                let answer = stream::iter([Ok(PutResult { app_metadata })]);
                Ok(Response::new(Box::pin(answer)))
            }
            Err(error) => Err(error.into_status()),
        }
    }

    /// Sends everything back as it comes.
    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        let guard = Guard(self.is_gone.clone());
        let mut reader = FlightReader::new(request.into_inner(), ReadOptions::new());
        let schema = reader.schema().await.map_err(Error::into_status)?;
        let queue = self.queue.clone().unwrap_or_else(Queue::host);
        let note = reader.app_metadata().clone();
        let ended = self.ended.clone();
        let arrays = reader.arrays().copy_to(&queue).chain(stream::poll_fn(move |_| {
            let _ = &guard;
            ended.fetch_add(1, Ordering::SeqCst);
            Poll::Ready(None)
        }));
        let messages = FlightMessages::new(&schema, arrays).map_err(Error::into_status)?;
        Ok(Response::new(Box::pin(messages.app_metadata(note).statuses())))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented("handshake"))
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("list_flights"))
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(Status::unimplemented("get_flight_info"))
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("poll_flight_info"))
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented("get_schema"))
    }

    async fn do_action(
        &self,
        _: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        Err(Status::unimplemented("do_action"))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(Status::unimplemented("list_actions"))
    }
}

/// A server that runs, on loopback, until it is stopped or dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(tables: &Tables) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(FlightServiceServer::new(tables.clone()));
        let incoming = TcpListenerStream::new(listener);
        let task = tokio::spawn(async { server.serve_with_incoming(incoming).await.unwrap() });
        Self { address, task }
    }

    async fn channel(&self) -> Channel {
        let channel = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        channel.connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> FlightServiceClient<Channel> {
        FlightServiceClient::new(self.channel().await)
    }

    pub(crate) async fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel().await)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
