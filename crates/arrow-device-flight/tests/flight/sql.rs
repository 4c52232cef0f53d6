//! Statements of Flight SQL, by the example.

#[path = "../../examples/flight_sql.rs"]
mod flight_sql;

use arrow_device::{Batch, Queue};
use arrow_device_sim::Sim;
use arrow_flight_60::Ticket;
use arrow_flight_60::sql::client::FlightSqlServiceClient;
use arrow_flight_60::sql::{ProstMessageExt as _, TicketStatementQuery};
use flight_sql::{connect, query, serve, stations};
use futures_util::stream::TryStreamExt as _;
use prost::Message as _;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// Calls this with a client and a queue of a device. The server's table is on another device. Both
/// devices report what was done wrong with them when they are dropped.
fn with_client(test: impl AsyncFnOnce(FlightSqlServiceClient<Channel>, &Queue)) {
    let sims = [Sim::builder().build(), Sim::builder().build()];
    let queues = [&sims[0], &sims[1]].map(|sim| sim.device().open_queue().unwrap());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let client = connect(serve(&queues[0]).await.unwrap()).await.unwrap();
        test(client, &queues[1]).await;
    });
    // The server goes with its runtime.
    drop((runtime, queues));
}

#[test]
fn the_example_runs() {
    flight_sql::main().unwrap();
}

#[test]
fn a_statement_s_rows_come_from_the_server_s_device_to_the_client_s() {
    with_client(async |mut client, queue| {
        let arrays = query(&mut client, "select degrees, city from stations", queue).await;
        let arrays: Vec<_> = arrays.unwrap().try_collect().await.unwrap();
        let expected = stations().unwrap();
        assert_eq!(arrays.len(), expected.len());
        for (array, expected) in arrays.into_iter().zip(expected) {
            assert_eq!(array.device(), queue.device().id());
            let found = Batch::try_from(array).unwrap().to_host().unwrap();
            assert_eq!(found.column_count(), 2);
            for (index, name) in ["degrees", "city"].into_iter().enumerate() {
                assert_eq!(found.fields()[index].name(), name);
                let expected = expected.column_by_name(name).unwrap();
                assert!(found.column(index).unwrap().equals(&expected).unwrap(), "{name}");
            }
        }
    });
}

#[test]
fn a_statement_that_cannot_run_is_an_error_with_the_server_s_words() {
    with_client(async |mut client, queue| {
        for (text, words) in [
            ("select * from nowhere", "there is no table"),
            ("select colour from stations", "colour"),
            ("drop table stations", "only `select"),
        ] {
            let refused = query(&mut client, text, queue).await.err().unwrap().to_string();
            assert!(refused.contains(words), "{refused}");
        }
        // A handle that a client made up is looked at like a statement.
        let handle = TicketStatementQuery { statement_handle: vec![0xff, 0].into() };
        let ticket = Ticket::new(handle.as_any().encode_to_vec());
        let refused = client.inner_mut().do_get(ticket).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    });
}
