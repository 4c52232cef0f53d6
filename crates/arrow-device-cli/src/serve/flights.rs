//! [`Flights`]: what a server has, by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use arrow_device::{Array, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_flight_60::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};

use crate::backends::Opened;
use crate::failure::{Failure, Outcome};
use crate::files;

/// A file that is served.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) schema: Schema,
    /// Its batches, where they lie on a device. Otherwise each call reads the file.
    pub(super) held: Option<Vec<Array>>,
}

impl Flight {
    /// Looks into a file, and copies it to the device, if there is one.
    pub(super) fn open(path: &Path, device: Option<&Opened>) -> Outcome<Self> {
        let during = |failure: Failure| failure.during(path.display());
        files::has_name(path)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.map(str::to_owned).ok_or_else(|| {
            let message = "its name is no text, so that no client can ask for it; rename it";
            during(Failure::misuse(message))
        })?;
        let source = files::open(path)?;
        let schema = source.schema;
        // Refused here and not in each call.
        schema.to_arrow().map_err(|error| during(error.into()))?;
        let held = device.map(|opened| -> Outcome<Vec<Array>> {
            let queue = opened.device.open_queue()?;
            source.batches.map(|batch| Ok(batch?.as_array().copy_to(&queue)?)).collect()
        });
        let held = held.transpose().map_err(during)?;
        Ok(Self { name, path: path.to_owned(), schema, held })
    }

    /// How many rows there are, where that is known without reading the file.
    pub(super) fn rows(&self) -> Option<u64> {
        let held = self.held.as_ref()?;
        Some(held.iter().map(|batch| batch.len() as u64).sum())
    }

    pub(super) fn info(&self) -> Outcome<FlightInfo> {
        let ticket = Ticket::new(self.name.clone());
        let rows = self.rows().and_then(|rows| i64::try_from(rows).ok());
        let info = FlightInfo::new()
            .try_with_schema(&*self.schema.to_arrow()?)?
            .with_descriptor(FlightDescriptor::new_path(vec![self.name.clone()]))
            // Without a location: whoever asks stays with the server that was asked.
            .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
            .with_ordered(true)
            .with_total_bytes(-1)
            .with_total_records(rows.unwrap_or(-1));
        Ok(info)
    }
}

/// All that is served. What clients put is added while the server runs.
#[derive(Debug, Default)]
pub(super) struct Flights(RwLock<BTreeMap<String, Arc<Flight>>>);

impl Flights {
    /// Adds a flight, unless there is one of that name.
    pub(super) fn add(&self, flight: Flight) -> Outcome<()> {
        let mut flights = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match flights.entry(flight.name.clone()) {
            Entry::Occupied(other) => Err(Failure::misuse(format!(
                "{} and {}: two flights cannot have one name; rename a file, or serve them at two ports",
                other.get().path.display(),
                flight.path.display()
            ))),
            Entry::Vacant(place) => {
                place.insert(Arc::new(flight));
                Ok(())
            }
        }
    }

    /// The flight of exactly this name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Flight>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> Vec<Arc<Flight>> {
        let flights = self.0.read().unwrap_or_else(PoisonError::into_inner);
        flights.values().cloned().collect()
    }
}
