//! pyarrow's Flight on the other side, as a server and as a client.

use std::path::Path;
use std::process::Stdio;

use arrow_device::async_stream::ArraysExt as _;
use arrow_device_flight::v60::{FlightMessages, exchange, get, put};
use arrow_device_ipc::ReadOptions;
use arrow_device_sim::Sim;
use arrow_device_testkit::peers::python;
use arrow_flight_60::flight_service_client::FlightServiceClient;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tonic::client::Grpc;
use tonic::transport::Channel;

use crate::server::{Running, Tables};
use crate::support::{all, golden_tables, path, ticket};

fn script(python: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flight/peer.py");
    command.arg(script).args(arguments).kill_on_drop(true);
    command
}

async fn serve(python: &Path) -> (Child, Channel) {
    let mut child = script(python, &["serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().expect("the server tells its port");
    let channel = Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    // Kept open, so that the server may go on writing.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, channel.connect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pyarrow_serves_what_it_was_sent() {
    let Some(python) = python() else { return };
    let (_child, channel) = serve(&python).await;
    let mut client = FlightServiceClient::new(channel.clone());
    let mut grpc = Grpc::new(channel);
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    for table in golden_tables() {
        let there = table.arrays().copy_to(&queue);
        let messages = FlightMessages::new(&table.schema, there).unwrap();
        let sent = put(&mut grpc, messages.descriptor(path(&table.name))).await;
        let sent = match sent {
            Ok(answers) => answers.finish().await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            panic!("{}: {error}", table.name);
        }
        let reader = get(&mut client, ticket(&table.name), ReadOptions::new()).await.unwrap();
        let found = all(reader.arrays().copy_to(&queue).to_host()).await;
        table.assert_are(&found.unwrap_or_else(|error| panic!("{}: {error}", table.name)));

        let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
        let messages = messages.descriptor(path("echo"));
        let back = exchange(&mut grpc, messages, ReadOptions::new()).await.unwrap();
        let found = all(back.arrays()).await;
        table.assert_are(&found.unwrap_or_else(|error| panic!("{}: {error}", table.name)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pyarrow_gets_puts_and_exchanges() {
    let Some(python) = python() else { return };
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let served = Tables { queue: Some(queue), ..Tables::default() };
    let running = Running::start(&served).await;
    let all = golden_tables();
    all.iter().for_each(|table| served.put(table.clone()));
    let port = running.address.port().to_string();
    let names: Vec<&str> = all.iter().map(|table| &*table.name).collect();
    let arguments = [&["client", &port][..], &names].concat();
    let output = script(&python, &arguments).output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for table in all {
        let name = format!("copy of {}", table.name);
        let kept = served.tables.lock().unwrap()[&name].batches.clone();
        let kept: Vec<_> = kept.iter().map(|batch| batch.to_host().unwrap()).collect();
        table.assert_are(&kept);
    }
    drop(running);
    served.until_alone().await;
}

#[tokio::test]
async fn pyarrow_that_dies_in_the_middle_is_an_error() {
    let Some(python) = python() else { return };
    let (_child, channel) = serve(&python).await;
    let mut client = FlightServiceClient::new(channel);
    let reader = get(&mut client, ticket("dies"), ReadOptions::new()).await.unwrap();
    assert!(all(reader.arrays()).await.is_err(), "taken for the end of the stream");
}
