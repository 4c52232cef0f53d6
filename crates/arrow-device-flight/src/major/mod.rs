//! Flight for one major of arrow-flight. `lib.rs` includes this source once for each major;
//! `super::arrow` is the major.
//!
//! `reader` makes arrays of messages, `messages` makes messages of arrays, `calls` makes the calls
//! of a client, and `errors` converts errors.

use super::arrow;

mod calls;
mod errors;
mod messages;
mod reader;

pub use calls::{Puts, Watched, exchange, get, put};
pub use errors::ErrorExt;
pub use messages::{FlightMessages, FlightStatuses};
pub use reader::{FlightArrays, FlightReader, Received};
