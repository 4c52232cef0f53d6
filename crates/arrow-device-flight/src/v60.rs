//! For arrow-flight 60.

mod arrow {
    pub(super) use arrow_flight_60 as flight;
}

#[path = "major/mod.rs"]
mod major;

pub use major::{
    ErrorExt, FlightArrays, FlightMessages, FlightReader, FlightStatuses, Puts, Received, Watched,
    exchange, get, put,
};
