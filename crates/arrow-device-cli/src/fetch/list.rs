//! The flights that a server lists.

use std::io::Write;
use std::process::ExitCode;

use arrow_flight_60::{FlightDescriptor, FlightInfo};

use crate::failure::Outcome;
use crate::flight::{Access, Address, Connection};
use crate::json::Json;
use crate::table::{self, Side};
use crate::units;

pub(super) fn run(
    address: &Address,
    access: &Access,
    as_json: bool,
    out: &mut dyn Write,
) -> Outcome {
    let connection = Connection::open(address, access)?;
    let listed = connection.list(|flight| {
        let listed = Listed::of(flight);
        (listed.name.len(), listed)
    });
    let flights = listed.map_err(|failure| failure.of_peer().during(address))?;
    if as_json {
        writeln!(out, "{}", Json::list(&flights, Listed::to_json))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !flights.is_empty() {
        let rows: Vec<Vec<String>> = flights.iter().map(Listed::row).collect();
        let right = Side::Right;
        let titles =
            [("flight", Side::Left), ("rows", right), ("bytes", right), ("columns", right)];
        table::write(out, &titles, &rows)?;
    }
    writeln!(out, "{}", units::counted(flights.len() as u64, "flight", "flights"))?;
    Ok(ExitCode::SUCCESS)
}

/// A flight, as far as the server tells.
struct Listed {
    name: String,
    rows: Option<u64>,
    bytes: Option<u64>,
    columns: Option<usize>,
}

impl Listed {
    fn of(flight: FlightInfo) -> Self {
        Self {
            name: name_of(flight.flight_descriptor.as_ref()),
            // -1 stands for what the server does not know.
            rows: u64::try_from(flight.total_records).ok(),
            bytes: u64::try_from(flight.total_bytes).ok(),
            columns: flight.try_decode_schema().ok().map(|schema| schema.fields().len()),
        }
    }

    fn row(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            shown(&self.name),
            or_dash(self.rows.map(units::count)),
            or_dash(self.bytes.map(units::bytes)),
            or_dash(self.columns.map(|columns| columns.to_string())),
        ]
    }

    fn to_json(&self) -> Json {
        Json::Object(vec![
            ("name", self.name.as_str().into()),
            ("rows", Json::or_null(self.rows)),
            ("bytes", Json::or_null(self.bytes)),
            ("columns", Json::or_null(self.columns)),
        ])
    }
}

/// The path of a descriptor, or its command.
fn name_of(descriptor: Option<&FlightDescriptor>) -> String {
    let Some(descriptor) = descriptor else { return String::new() };
    if descriptor.path.is_empty() {
        return String::from_utf8_lossy(&descriptor.cmd).into_owned();
    }
    descriptor.path.join("/")
}

/// A name that a server chose, on a terminal: without what would move the cursor.
fn shown(name: &str) -> String {
    name.chars()
        .flat_map(|letter| {
            let escaped = letter.is_control().then(|| letter.escape_default());
            let plain = escaped.is_none().then_some(letter);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_calls_a_flight_moves_no_cursor() {
        let flight = FlightInfo::new()
            .with_descriptor(FlightDescriptor::new_path(vec!["a\u{1b}[2J".into(), "é b".into()]));
        let listed = Listed::of(flight.with_total_records(1234));
        assert_eq!(listed.row(), ["a\\u{1b}[2J/é b", "1,234", "-", "-"]);
    }
}
