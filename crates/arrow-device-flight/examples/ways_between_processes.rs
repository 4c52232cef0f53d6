//! One and the same stream from one process to another one, in each way that the project has.
//!
//! The first process makes the batches, and serves them in one way after the other. A second
//! process receives them, adds up all values of all columns, and prints how long that took from its
//! request on. The batches lie in host memory that can be shared, from before the first request.
//!
//! ```text
//! cargo run --release -p arrow-device-flight --features flight-60 --example ways_between_processes
//! ```

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("memory is shared between processes on Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &*words {
        [] => ways::serve(),
        [way, address] => ways::receive(way, address),
        _ => Err("the program takes no arguments".into()),
    }
}

#[cfg(target_os = "linux")]
mod ways {
    use std::error::Error as StdError;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::pin::Pin;
    use std::process::{Child, Command};
    use std::time::Instant;

    use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType, Error, Result};
    use arrow_device_dissociated::{
        Client, ClientOptions, Location, Server, ServerOptions, Transport, UcxListener, UcxOptions,
        UcxTransport, UnixTransport, ucx_version,
    };
    use arrow_device_flight::v60::{self, ErrorExt as _, FlightMessages};
    use arrow_device_ipc::ReadOptions;
    use arrow_device_share::{Receiver, Sender, to_shareable};
    use arrow_flight_60::flight_service_client::FlightServiceClient;
    use arrow_flight_60::flight_service_server::{FlightService, FlightServiceServer};
    use arrow_flight_60::{
        Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
        HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
    };
    use futures_util::stream::{self, Stream, StreamExt as _};
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Request, Response, Status, Streaming};

    type Attempt<T> = std::result::Result<T, Box<dyn StdError>>;

    const COLUMNS: i64 = 8;

    /// How many different batches there are. The stream has them again and again.
    const DIFFERENT: usize = 16;

    /// How many batches a stream has, and how many rows each of them.
    const STREAMS: [(usize, i64); 2] = [(200, 65_536), (10_000, 1_000)];

    #[derive(Clone)]
    struct Data {
        batches: Vec<Batch>,
        count: usize,
    }

    impl Data {
        fn new(count: usize, rows: i64) -> Result<Self> {
            let batch = |number: usize| {
                let first = number as i64 * rows;
                let columns: Vec<_> = (0..COLUMNS)
                    .map(|column| {
                        let values = (first..first + rows).map(|row| Some(row * (column + 1)));
                        Ok((format!("c{column}"), Array::from_values(DataType::Int64, values)?))
                    })
                    .collect::<Result<_>>()?;
                let batch = Batch::from_columns(columns)?;
                Batch::try_from(to_shareable(batch.as_array(), &Device::host())?)
            };
            Ok(Self { batches: (0..DIFFERENT).map(batch).collect::<Result<_>>()?, count })
        }

        fn iter(&self) -> impl Iterator<Item = Batch> + Send + Sync + use<> {
            self.batches.clone().into_iter().cycle().take(self.count)
        }

        fn stream(&self) -> Result<ArrayStream> {
            let schema = self.batches.first().map(Batch::schema).transpose()?;
            let schema = schema.unwrap_or(arrow_device::Schema::new(DataType::Null)?);
            Ok(ArrayStream::new(schema, DeviceType::CPU, self.iter().map(Ok)))
        }
    }

    /// The second process, for one way.
    fn second(way: &str, address: &str) -> Attempt<Child> {
        Ok(Command::new(std::env::current_exe()?).args([way, address]).spawn()?)
    }

    fn ended(mut child: Child) -> Attempt<()> {
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the second process: {status}").into()) }
    }

    pub(super) fn serve() -> Attempt<()> {
        for (count, rows) in STREAMS {
            let data = Data::new(count, rows)?;
            let size = rows * COLUMNS * 8;
            println!("\n{count} batches of {size} bytes in {COLUMNS} columns");
            println!("{:<40} {:>12} {:>12}", "way", "batches/s", "MB/s");
            share(&data)?;
            over_unix(&data, true)?;
            over_unix(&data, false)?;
            if ucx_version().is_ok() {
                over_ucx(&data, "dissociated: packed, UCX")?;
            }
            flight(data)?;
        }
        Ok(())
    }

    fn socket() -> Attempt<(UnixListener, String)> {
        let name = format!("arrow-device-ways-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        Ok((UnixListener::bind(&path)?, path.display().to_string()))
    }

    fn share(data: &Data) -> Attempt<()> {
        let (listener, path) = socket()?;
        let child = second("sharing", &path)?;
        Sender::new(listener.accept()?.0).serve(data.stream()?)?;
        ended(child)
    }

    fn dissociated(transport: impl Transport + 'static, at: &Location, data: &Data) -> Attempt<()> {
        let options = ServerOptions::new().sharing(&Device::host());
        let stream = data.stream()?;
        Server::new(transport, at, options)?.serve(|_| Ok(stream))?;
        Ok(())
    }

    fn over_unix(data: &Data, shares: bool) -> Attempt<()> {
        let (listener, path) = socket()?;
        let location = Location::new(format!("unix://{path}"));
        let (way, location) = match shares {
            true => ("dissociated: addresses, Unix socket", location.sharing(&Device::host())),
            false => ("dissociated: packed, Unix socket", location),
        };
        let child = second(way, &location.to_string())?;
        dissociated(UnixTransport::new(listener.accept()?.0), &location, data)?;
        ended(child)
    }

    fn over_ucx(data: &Data, way: &str) -> Attempt<()> {
        // SAFETY: UNS-39: this program alone knows the port.
        let listener = unsafe { UcxListener::bind("127.0.0.1:0", &UcxOptions::new()) }?;
        let child = second(way, &listener.location().to_string())?;
        dissociated(listener.accept(None)?, &listener.location(), data)?;
        ended(child)
    }

    #[tokio::main(flavor = "multi_thread")]
    async fn flight(data: Data) -> Attempt<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let child = second("Flight", &format!("http://{}", listener.local_addr()?))?;
        let server = tonic::transport::Server::builder()
            .add_service(FlightServiceServer::new(data))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(server);
        tokio::task::spawn_blocking(|| ended(child).map_err(|error| error.to_string())).await??;
        serving.abort();
        Ok(())
    }

    /// What came.
    #[derive(Default)]
    struct Came {
        batches: u64,
        bytes: u64,
        sum: i64,
    }

    impl Came {
        fn add(&mut self, array: &Array) -> Result<()> {
            let here = array.host()?;
            for column in 0..COLUMNS as usize {
                let column = here.child(column)?;
                let values = column.values::<i64>()?;
                self.sum = (0..column.len())
                    .filter_map(|row| values.get(row))
                    .fold(self.sum, i64::wrapping_add);
                self.bytes += 8 * column.len() as u64;
            }
            self.batches += 1;
            Ok(())
        }
    }

    pub(super) fn receive(way: &str, address: &str) -> Attempt<()> {
        let mut came = Came::default();
        let seconds = match way {
            "sharing" => {
                let receiver = Receiver::new(UnixStream::connect(address)?, [Device::host()]);
                let began = Instant::now();
                for array in receiver.into_stream(64)? {
                    came.add(&array?)?;
                }
                began.elapsed()
            }
            "Flight" => from_flight(address, &mut came)?,
            _ => {
                let location: Location = address.parse()?;
                let client = if address.starts_with("unix:") {
                    let transport = UnixTransport::connect(&location)?;
                    (Instant::now(), request(transport, &location)?)
                } else {
                    // SAFETY: UNS-39: the first process listens there.
                    let transport =
                        unsafe { UcxTransport::connect(&location, &UcxOptions::new()) }?;
                    (Instant::now(), request(transport, &location)?)
                };
                let (began, client) = client;
                for batch in client {
                    came.add(batch?.as_array())?;
                }
                began.elapsed()
            }
        };
        let seconds = seconds.as_secs_f64();
        let rate = |count: u64| count as f64 / seconds;
        let (batches, megabytes) = (rate(came.batches), rate(came.bytes) / 1e6);
        println!("{way:<40} {batches:>12.0} {megabytes:>12.0}");
        if came.sum == 0 {
            return Err("no value has come".into());
        }
        Ok(())
    }

    fn request(transport: impl Transport + 'static, location: &Location) -> Result<Client> {
        Client::request(transport, location, b"stream", ClientOptions::new())
    }

    #[tokio::main(flavor = "current_thread")]
    async fn from_flight(address: &str, came: &mut Came) -> Attempt<std::time::Duration> {
        let mut client = FlightServiceClient::connect(address.to_owned()).await?;
        let began = Instant::now();
        let reader = v60::get(&mut client, Ticket::new("stream"), ReadOptions::new()).await?;
        let mut arrays = std::pin::pin!(reader.arrays());
        while let Some(array) = arrays.next().await {
            came.add(&array?)?;
        }
        Ok(began.elapsed())
    }

    type Answers<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;
    type Answer<T> = std::result::Result<Response<T>, Status>;

    #[tonic::async_trait]
    impl FlightService for Data {
        type HandshakeStream = Answers<HandshakeResponse>;
        type ListFlightsStream = Answers<FlightInfo>;
        type DoGetStream = Answers<FlightData>;
        type DoPutStream = Answers<PutResult>;
        type DoExchangeStream = Answers<FlightData>;
        type DoActionStream = Answers<arrow_flight_60::Result>;
        type ListActionsStream = Answers<ActionType>;

        async fn do_get(&self, _: Request<Ticket>) -> Answer<Self::DoGetStream> {
            let schema = self.batches.first().map(Batch::schema);
            let schema = schema.ok_or_else(|| Status::not_found("no batches"))?;
            let schema = schema.map_err(Error::into_status)?;
            let arrays = stream::iter(self.iter().map(|batch| Ok(Array::from(batch))));
            let messages = FlightMessages::new(&schema, arrays).map_err(Error::into_status)?;
            Ok(Response::new(Box::pin(messages.statuses())))
        }

        async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
            Err(Status::unimplemented("do_put"))
        }

        async fn do_exchange(
            &self,
            _: Request<Streaming<FlightData>>,
        ) -> Answer<Self::DoExchangeStream> {
            Err(Status::unimplemented("do_exchange"))
        }

        async fn handshake(
            &self,
            _: Request<Streaming<HandshakeRequest>>,
        ) -> Answer<Self::HandshakeStream> {
            Err(Status::unimplemented("handshake"))
        }

        async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
            Err(Status::unimplemented("list_flights"))
        }

        async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<FlightInfo> {
            Err(Status::unimplemented("get_flight_info"))
        }

        async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
            Err(Status::unimplemented("poll_flight_info"))
        }

        async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
            Err(Status::unimplemented("get_schema"))
        }

        async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
            Err(Status::unimplemented("do_action"))
        }

        async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
            Err(Status::unimplemented("list_actions"))
        }
    }
}
