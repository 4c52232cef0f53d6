//! A flight of a server as a source of batches.

use std::vec::IntoIter;

use arrow_device::{Batch, Error, ErrorKind, Result, Schema};
use arrow_device_flight::v60::{FlightArrays, FlightReader, get};
use arrow_flight_60::{FlightData, Ticket};
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use super::{Access, Address, Connection};
use crate::failure::{Failure, Outcome};
use crate::files::{OpenedFile, Position};

/// Asks a server for the flight that the address names. Nothing is read ahead of what is taken but
/// what the network holds.
pub(crate) fn open(address: &Address, access: &Access) -> Outcome<OpenedFile> {
    let Some(name) = &address.name else {
        return Err(Failure::misuse(format!(
            "{address}: name a flight behind the host; `arrow-device fetch {address}` lists them"
        )));
    };
    let connection = Connection::open(address, access)?;
    let opened = open_on(connection, address, name);
    opened.map_err(|failure| failure.of_peer().during(address))
}

fn open_on(connection: Connection, address: &Address, name: &str) -> Outcome<OpenedFile> {
    let mut tickets = connection.tickets(address, name)?.into_iter();
    let mut first = match tickets.next() {
        Some(ticket) => ask(&connection, ticket)?,
        None => return Err(Failure::new("the server has no ticket")),
    };
    let schema = connection.runtime.block_on(first.schema())?;
    let arrays = Some(first.arrays());
    let parts = Parts { connection, schema: schema.clone(), arrays, tickets };
    Ok(OpenedFile { schema, position: Position::default(), batches: Box::new(parts) })
}

type Reader = FlightReader<Streaming<FlightData>>;

fn ask(connection: &Connection, ticket: Ticket) -> Result<Reader> {
    let mut client = connection.client();
    let asked = get(&mut client, connection.request(ticket), connection.options());
    connection.runtime.block_on(asked)
}

/// The batches of all tickets, one after the other.
struct Parts {
    connection: Connection,
    schema: Schema,
    /// Those of the ticket that is being read. `None` after an error.
    arrays: Option<FlightArrays<Streaming<FlightData>>>,
    tickets: IntoIter<Ticket>,
}

impl Parts {
    fn read(&mut self, arrays: &mut FlightArrays<Streaming<FlightData>>) -> Result<Option<Batch>> {
        loop {
            if let Some(array) = self.connection.runtime.block_on(arrays.next()) {
                return array.and_then(Batch::try_from).map(Some);
            }
            let Some(ticket) = self.tickets.next() else { return Ok(None) };
            let mut reader = ask(&self.connection, ticket)?;
            if self.connection.runtime.block_on(reader.schema())? != self.schema {
                let message = "the parts of the flight have different schemas";
                return Err(Error::new(ErrorKind::SchemaMismatch, message));
            }
            *arrays = reader.arrays();
        }
    }
}

impl Iterator for Parts {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut arrays = self.arrays.take()?;
        let next = self.read(&mut arrays).transpose();
        if matches!(next, Some(Ok(_))) {
            self.arrays = Some(arrays);
        }
        next
    }
}
