//! Flight SQL from a device to a device.
//!
//! A server keeps a table on a device. It answers `select city, degrees from stations` with a
//! stream of the columns as they lie on that device, which are copied to the host when the network
//! has room for them. A client asks with the client of arrow-flight, and takes the result as a
//! stream of arrays on a device of its own. Both devices are made of software and report every
//! mistake in the order of work.
//!
//! `cargo run -p arrow-device-flight --features flight-60 --example flight_sql`

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, Batch, DataType, Error, Queue, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_flight::v60::{ErrorExt as _, FlightMessages, get};
use arrow_device_ipc::ReadOptions;
use arrow_device_sim::Sim;
use arrow_flight_60::flight_service_server::FlightServiceServer;
use arrow_flight_60::sql::client::FlightSqlServiceClient;
use arrow_flight_60::sql::server::FlightSqlService;
use arrow_flight_60::sql::{CommandStatementQuery, ProstMessageExt as _, TicketStatementQuery};
use arrow_flight_60::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use futures_util::stream::{self, Stream, TryStreamExt as _};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

type Attempt<T> = Result<T, Box<dyn StdError + Send + Sync>>;

/// The rows of the table, in batches of three.
const STATIONS: [(&str, i64, f64); 6] = [
    ("Bern", 553, 8.8),
    ("Davos", 1594, 3.5),
    ("Lugano", 273, 12.4),
    ("Sion", 482, 10.7),
    ("Jungfraujoch", 3571, -7.2),
    ("Basel", 316, 10.5),
];

/// The table on the host.
pub(crate) fn stations() -> Result<Vec<Batch>, Error> {
    let batch = |rows: &[(&str, i64, f64)]| {
        let cities = rows.iter().map(|(city, ..)| Some(*city));
        let metres = rows.iter().map(|(_, metres, _)| Some(*metres));
        let degrees = rows.iter().map(|(.., degrees)| Some(*degrees));
        Batch::from_columns([
            ("city", Array::from_texts(DataType::Utf8, cities)?),
            ("metres", Array::from_values(DataType::Int64, metres)?),
            ("degrees", Array::from_values(DataType::Float64, degrees)?),
        ])
    };
    STATIONS.chunks(3).map(batch).collect()
}

/// A server with one table, `stations`, on a device.
#[derive(Clone)]
struct Stations {
    batches: Arc<Vec<Batch>>,
}

/// The result of a statement, which lies where the table lies.
struct Selected {
    schema: Schema,
    batches: Vec<Batch>,
}

impl Stations {
    fn on(queue: &Queue) -> Result<Self, Error> {
        let copies = stations()?.into_iter().map(|batch| batch.copy_to(queue));
        Ok(Self { batches: Arc::new(copies.collect::<Result<_, _>>()?) })
    }

    /// Runs `select COLUMN, ... from stations`, or with `*`. The columns are those of the table:
    /// nothing is copied.
    fn select(&self, query: &str) -> Result<Selected, Status> {
        let wrong = || Status::invalid_argument("only `select COLUMN, ... from TABLE` is known");
        let (columns, table) = query
            .trim()
            .strip_prefix("select ")
            .and_then(|rest| rest.rsplit_once(" from "))
            .ok_or_else(wrong)?;
        if table.trim() != "stations" {
            return Err(Status::not_found(format!("there is no table {:?}", table.trim())));
        }
        let of_batch = |batch: &Batch| match columns.trim() {
            "*" => Ok(batch.clone()),
            columns => {
                let columns = columns.split(',').map(str::trim);
                let columns = columns.map(|name| Ok((name, batch.column_by_name(name)?)));
                Batch::from_columns(columns.collect::<Result<Vec<_>, Error>>()?)
            }
        };
        let selected = || -> Result<Selected, Error> {
            let batches = self.batches.iter().map(of_batch).collect::<Result<Vec<_>, _>>()?;
            let first = batches.first().map(Batch::schema).transpose()?;
            let schema = first.ok_or_else(|| Error::other("the table has no batches"))?;
            Ok(Selected { schema, batches })
        };
        selected().map_err(Error::into_status)
    }
}

#[tonic::async_trait]
impl FlightSqlService for Stations {
    type FlightService = Self;

    /// Says what the result of a statement is, and how to get it. The ticket has the statement, so
    /// that the server keeps nothing between the two calls.
    async fn get_flight_info_statement(
        &self,
        command: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let selected = self.select(&command.query)?;
        let schema = selected.schema.to_arrow().map_err(Error::into_status)?;
        let ticket = TicketStatementQuery { statement_handle: command.query.into() };
        let ticket = Ticket::new(ticket.as_any().encode_to_vec());
        let rows: usize = selected.batches.iter().map(Batch::row_count).sum();
        let info = FlightInfo::new()
            .try_with_schema(&schema)
            .map_err(|error| Status::internal(error.to_string()))?
            .with_descriptor(request.into_inner())
            .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
            .with_total_records(i64::try_from(rows).unwrap_or(-1));
        Ok(Response::new(info))
    }

    /// Answers with the arrays on the device.
    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        // The handle comes back from the client, who may have made it up.
        let query = String::from_utf8_lossy(&ticket.statement_handle);
        let selected = self.select(&query)?;
        let arrays = selected.batches.into_iter().map(|batch| Ok(Array::from(batch)));
        let messages = FlightMessages::new(&selected.schema, stream::iter(arrays));
        let messages = messages.map_err(Error::into_status)?.prefetch(1);
        Ok(Response::new(Box::pin(messages.statuses())))
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// The result of a statement, as a stream of arrays on a device.
pub(crate) async fn query(
    client: &mut FlightSqlServiceClient<Channel>,
    text: &str,
    queue: &Queue,
) -> Attempt<impl Stream<Item = Result<Array, Error>> + use<>> {
    let info = client.execute(text.to_owned(), None).await?;
    // A result may have several parts; this server makes one.
    let ticket = info.endpoint.into_iter().find_map(|endpoint| endpoint.ticket);
    let ticket = ticket.ok_or("the statement has no result")?;
    let mut request = Request::new(ticket);
    if let Some(token) = client.token() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    let reader = get(client.inner_mut(), request, ReadOptions::new().validate(true)).await?;
    Ok(reader.arrays().copy_to(queue).prefetch(2))
}

/// Starts a server whose table lies on the device of this queue.
pub(crate) async fn serve(queue: &Queue) -> Attempt<SocketAddr> {
    let service = FlightServiceServer::new(Stations::on(queue)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Ok(address)
}

pub(crate) async fn connect(address: SocketAddr) -> Attempt<FlightSqlServiceClient<Channel>> {
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    Ok(FlightSqlServiceClient::new(channel))
}

pub(crate) fn main() -> Attempt<()> {
    let sims = [Sim::builder().build(), Sim::builder().build()];
    let [server, client] = &sims;
    let (of_server, of_client) = (server.device().open_queue()?, client.device().open_queue()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = connect(serve(&of_server).await?).await?;
        for text in ["select * from stations", "select city, degrees from stations"] {
            let arrays = query(&mut client, text, &of_client).await?;
            let arrays: Vec<Array> = arrays.try_collect().await?;
            println!("{text}");
            for array in arrays {
                let there = array.device() == of_client.device().id();
                println!("{} rows, on the device of the client: {there}", array.len());
                let batch = Batch::try_from(array)?.to_host()?;
                println!("{}", batch.to_table(10)?);
            }
        }
        let refused = query(&mut client, "select * from nowhere", &of_client).await;
        println!("{}", refused.err().ok_or("a table that is not there was found")?);
        Attempt::Ok(())
    })?;
    drop((runtime, of_server, of_client));
    let mistakes: Vec<_> = sims.iter().flat_map(Sim::reports).collect();
    if mistakes.is_empty() { Ok(()) } else { Err(format!("{mistakes:?}").into()) }
}
