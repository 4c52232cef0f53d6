//! The ways of a stream from one process to another one, side by side.
//!
//! This program sends the same batches of host memory to a second process, once for each way: as
//! handles of shared memory (`arrow-device-share`); by Dissociated IPC with addresses in shared
//! memory, over a Unix socket; by Dissociated IPC over UCX; by Flight; and as Arrow IPC over a
//! pipe. The second process is this program again. It looks at one value of each batch, drops the
//! batch, and measures how long a batch takes. The batches are made before the clock starts, for
//! the first two ways in memory that other processes can open.
//!
//! ```text
//! cargo run --release -p arrow-device-flight --features flight-60 --example ways_between_processes
//! ```

#[cfg(not(target_os = "linux"))]
pub(crate) fn main() {
    println!("memory is shared between processes on Linux only");
}

#[cfg(target_os = "linux")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Each group takes about as long.
    let shapes = [(10, 100, 5_000), (8, 131_072, 20)];
    run(&shapes, &mut || Ok(std::process::Command::new(std::env::current_exe()?)))
}

#[cfg(target_os = "linux")]
pub(crate) use ways::run;

#[cfg(target_os = "linux")]
mod ways {
    use std::error::Error as StdError;
    use std::fs::File;
    use std::io::{self, BufWriter};
    use std::iter::repeat_n;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::pin::Pin;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType, Error};
    use arrow_device_dissociated::{
        Client, ClientOptions, Location, Server, ServerOptions, Transport, UcxListener, UcxOptions,
        UcxTransport, UnixTransport, ucx_version,
    };
    use arrow_device_flight::v60::{ErrorExt as _, FlightMessages, get};
    use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
    use arrow_device_share::{Receiver, Sender, to_shareable};
    use arrow_flight_60::flight_service_client::FlightServiceClient;
    use arrow_flight_60::flight_service_server::FlightServiceServer;
    use arrow_flight_60::sql::server::FlightSqlService;
    use arrow_flight_60::sql::{ProstMessageExt as _, TicketStatementQuery};
    use arrow_flight_60::{FlightData, Ticket};
    use futures_util::stream::{self, Stream, StreamExt as _};
    use prost::Message as _;
    use tokio::net::TcpListener;
    use tokio::runtime::Runtime;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::transport::Channel;
    use tonic::{Request, Response, Status};

    type Attempt<T> = Result<T, Box<dyn StdError + Send + Sync>>;

    /// How to start this program once more.
    type Again<'a> = &'a mut dyn FnMut() -> Attempt<Command>;

    /// Tells the second process what comes in which way, and from where.
    const TOLD: &str = "ARROW_DEVICE_WAYS_TOLD";

    /// Groups of batches that are measured, after one that is not.
    const GROUPS: usize = 5;

    /// How long anything is waited for that should be there at once.
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

    const WAYS: [(&str, Way); 5] = [
        ("sharing", Way::Sharing),
        ("dissociated, shared memory", Way::Dissociated),
        ("dissociated, UCX", Way::Ucx),
        ("Flight", Way::Flight),
        ("IPC, pipe", Way::Pipe),
    ];

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Way {
        Sharing,
        Dissociated,
        Ucx,
        Flight,
        Pipe,
    }

    /// Batches of so many columns and rows, and how many of them make a group.
    #[derive(Clone, Copy)]
    struct Shape {
        columns: usize,
        rows: usize,
        group: usize,
    }

    /// Sends batches of so many columns and rows, in groups of so many, in each way. In the second
    /// process receives them instead.
    pub(crate) fn run(shapes: &[(usize, usize, usize)], again: Again<'_>) -> Attempt<()> {
        if let Ok(told) = std::env::var(TOLD) {
            return receive(&told);
        }
        println!("| way | a batch of | time of a batch | MiB/s |");
        println!("|---|---|---|---|");
        for &(columns, rows, group) in shapes {
            for (name, way) in WAYS {
                if way == Way::Ucx
                    && let Err(missing) = ucx_version()
                {
                    println!("| {name} | {missing} | | |");
                    continue;
                }
                send(way, Shape { columns, rows, group }, again)
                    .map_err(|error| format!("{name}: {error}"))?;
            }
        }
        Ok(())
    }

    impl Shape {
        /// How many batches are sent.
        fn count(self) -> usize {
            (GROUPS + 1) * self.group
        }

        /// The batch. The value of a row is the sum of the numbers of its row and its column.
        fn batch(self) -> Result<Batch, Error> {
            let column = |number: usize| {
                let values = (0..self.rows).map(|row| Some((row + number) as i64));
                let column = Array::from_values(DataType::Int64, values)?;
                Ok((format!("column {number}"), column))
            };
            Batch::from_columns((0..self.columns).map(column).collect::<Result<Vec<_>, Error>>()?)
        }

        /// All batches, as a stream.
        fn stream(self, batch: &Batch) -> Result<ArrayStream, Error> {
            let batches = repeat_n(batch.clone(), self.count()).map(Ok);
            Ok(ArrayStream::new(batch.schema()?, DeviceType::CPU, batches))
        }
    }

    /// The second process. One that is given up ends with its connection.
    struct Other(Child);

    impl Other {
        fn start(way: Way, shape: Shape, address: &str, again: Again<'_>) -> Attempt<Self> {
            let number = WAYS.iter().position(|(_, other)| *other == way).unwrap_or(0);
            let Shape { columns, rows, group } = shape;
            let told = format!("{number} {columns} {rows} {group} {address}");
            let mut command = again()?;
            Ok(Self(command.env(TOLD, told).stdin(Stdio::piped()).spawn()?))
        }

        fn end(mut self) -> Attempt<()> {
            let status = self.0.wait()?;
            if status.success() {
                return Ok(());
            }
            Err(format!("the second process ended with {status}").into())
        }
    }

    /// A Unix socket in the file system, which goes with this value.
    struct Meeting(PathBuf, UnixListener);

    impl Meeting {
        fn new() -> Attempt<Self> {
            let name = format!("arrow-device-ways-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let listener = UnixListener::bind(&path)?;
            Ok(Self(path, listener))
        }
    }

    impl Drop for Meeting {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn send(way: Way, shape: Shape, again: Again<'_>) -> Attempt<()> {
        let (host, batch) = (Device::host(), shape.batch()?);
        match way {
            Way::Sharing => {
                let meeting = Meeting::new()?;
                let address = meeting.0.display().to_string();
                let batch = Batch::try_from(to_shareable(batch.as_array(), &host)?)?;
                let other = Other::start(way, shape, &address, again)?;
                Sender::new(meeting.1.accept()?.0).serve(shape.stream(&batch)?)?;
                other.end()
            }
            Way::Dissociated => {
                let meeting = Meeting::new()?;
                let location = Location::new(format!("unix://{}", meeting.0.display()));
                let location = location.sharing(&host);
                let batch = Batch::try_from(to_shareable(batch.as_array(), &host)?)?;
                let other = Other::start(way, shape, &location.to_string(), again)?;
                let here = UnixTransport::new(meeting.1.accept()?.0);
                let options = ServerOptions::new().sharing(&host);
                Server::new(here, &location, options)?.serve(|_| shape.stream(&batch))?;
                other.end()
            }
            Way::Ucx => {
                // SAFETY: UNS-39: the client is the process below, and nobody else knows the port.
                let listener = unsafe { UcxListener::bind("127.0.0.1:0", &UcxOptions::new()) }?;
                let location = listener.location();
                let other = Other::start(way, shape, &location.to_string(), again)?;
                let here = listener.accept(PATIENCE)?;
                let server = Server::new(here, &location, ServerOptions::new())?;
                server.serve(|_| shape.stream(&batch))?;
                other.end()
            }
            Way::Flight => {
                let runtime = Runtime::new()?;
                let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
                let address = listener.local_addr()?.to_string();
                let service = FlightServiceServer::new(Flights { batch, count: shape.count() });
                let server = tonic::transport::Server::builder().add_service(service);
                runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
                Other::start(way, shape, &address, again)?.end()
            }
            Way::Pipe => {
                let mut other = Other::start(way, shape, "", again)?;
                let pipe = BufWriter::new(other.0.stdin.take().ok_or("there is no pipe")?);
                let mut writer = StreamWriter::new(pipe, &batch.schema()?, WriteOptions::new())?;
                for _ in 0..shape.count() {
                    writer.write(&batch)?;
                }
                drop(writer.finish()?);
                other.end()
            }
        }
    }

    /// A server of Flight that answers every statement with the batches.
    #[derive(Clone)]
    struct Flights {
        batch: Batch,
        count: usize,
    }

    type Answers = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

    #[tonic::async_trait]
    impl FlightSqlService for Flights {
        type FlightService = Self;

        async fn do_get_statement(
            &self,
            _: TicketStatementQuery,
            _: Request<Ticket>,
        ) -> Result<Response<Answers>, Status> {
            let schema = self.batch.schema().map_err(Error::into_status)?;
            let arrays = repeat_n(Array::from(self.batch.clone()), self.count).map(Ok);
            let messages = FlightMessages::new(&schema, stream::iter(arrays));
            Ok(Response::new(Box::pin(messages.map_err(Error::into_status)?.statuses())))
        }
    }

    /// What the second process does.
    fn receive(told: &str) -> Attempt<()> {
        let mut words = told.splitn(5, ' ');
        let mut number = || words.next()?.parse::<usize>().ok();
        let numbers = number().zip(number()).zip(number()).zip(number());
        let (((way, columns), rows), group) = numbers.ok_or("what was told has no numbers")?;
        let (name, way) = *WAYS.get(way).ok_or("the way is not known")?;
        let address = words.next().unwrap_or_default();
        let shape = Shape { columns, rows, group };
        let time = match way {
            Way::Sharing => {
                let receiver = Receiver::new(UnixStream::connect(address)?, [Device::host()]);
                measure(shape, receiver.into_stream(64)?.map(|array| Batch::try_from(array?)))
            }
            Way::Dissociated => {
                let location: Location = address.parse()?;
                ask(shape, UnixTransport::connect(&location)?, &location)
            }
            Way::Ucx => {
                let location: Location = address.parse()?;
                // SAFETY: UNS-39: the process that has started this one listens there.
                let there = unsafe { UcxTransport::connect(&location, &UcxOptions::new()) }?;
                ask(shape, there, &location)
            }
            Way::Flight => {
                let runtime = Runtime::new()?;
                let ticket = TicketStatementQuery { statement_handle: Vec::new().into() };
                let ticket = Ticket::new(ticket.as_any().encode_to_vec());
                // The connection is kept until all has come.
                let (_client, arrays) = runtime.block_on(async {
                    let channel = Channel::from_shared(format!("http://{address}"))?;
                    let mut client = FlightServiceClient::new(channel.connect().await?);
                    let reader = get(&mut client, ticket, ReadOptions::new()).await?;
                    Attempt::Ok((client, reader.arrays()))
                })?;
                let mut arrays = std::pin::pin!(arrays);
                let next = || runtime.block_on(arrays.next()).map(|array| Batch::try_from(array?));
                measure(shape, std::iter::from_fn(next))
            }
            Way::Pipe => {
                let pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
                measure(shape, StreamReader::new(pipe, ReadOptions::new())?)
            }
        }?;
        let rate = (columns * rows * 8) as f64 / time.as_secs_f64() / f64::from(1 << 20);
        let micros = time.as_secs_f64() * 1e6;
        println!("| {name} | {columns} columns of {rows} rows | {micros:.1} µs | {rate:.0} |");
        Ok(())
    }

    fn ask(
        shape: Shape,
        there: impl Transport + 'static,
        location: &Location,
    ) -> Attempt<Duration> {
        let client = Client::request(there, location, b"batches", ClientOptions::new())?;
        measure(shape, client)
    }

    /// Takes all batches, and returns the median time of a batch over the groups. Flight divides a
    /// large batch, so rows are counted.
    fn measure(
        shape: Shape,
        batches: impl Iterator<Item = Result<Batch, Error>>,
    ) -> Attempt<Duration> {
        let Shape { columns, rows, group } = shape;
        let (mut seen, mut began, mut times) = (0, Instant::now(), Vec::new());
        for batch in batches {
            let batch = batch?;
            seen += batch.row_count();
            let last = batch.column(columns - 1)?;
            let value = last.host()?.values::<i64>()?.get(batch.row_count() - 1);
            let expected = (seen - 1) % rows + columns - 1;
            if value != Some(expected as i64) {
                return Err(format!("row {seen} ends with {value:?}, and not {expected}").into());
            }
            drop((last, batch));
            if seen % (rows * group) == 0 {
                times.push(began.elapsed() / u32::try_from(group)?);
                began = Instant::now();
            }
        }
        if seen != shape.count() * rows {
            return Err(format!("{seen} rows came, and not {}", shape.count() * rows).into());
        }
        let times = times.get_mut(1..).ok_or("nothing was measured")?;
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    }
}
