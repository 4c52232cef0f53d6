//! Arrow's Dissociated IPC protocol: the headers of Arrow IPC travel in messages, and the bodies
//! stay in the memory of a device.
//!
//! **Experimental.** The Arrow project calls the protocol experimental and may change it, and then
//! this crate changes with it. No other implementation was run against this one:
//! `docs/dissociated.md` in the repository says what is on the wire, byte by byte, and what is not
//! proven.
//!
//! | to | use |
//! |---|---|
//! | say where a stream can be asked for | [`Location`] |
//! | send a stream to the client that asks for it | [`Server`] |
//! | ask for a stream and read it | [`Client`] |
//! | carry the messages over a Unix socket, with memory beside them | `UnixTransport` |
//! | carry the messages over UCX, also to other machines | `UcxListener`, `UcxTransport` |
//! | carry them in any other way | [`Transport`] |
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType};
//! use arrow_device_dissociated::{
//!     Client, ClientOptions, LocalTransport, Location, Server, ServerOptions,
//! };
//!
//! let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)])?;
//! let batch = Batch::from_columns([("n", numbers)])?;
//! let host = Device::host();
//! let location = Location::new("local:").sharing(&host);
//! // In life the two ends are in two processes: `UnixTransport`.
//! let (here, there) = LocalTransport::pair();
//!
//! let options = ServerOptions::new().sharing(&host);
//! let server = Server::new(here, &location, options)?;
//! let sent = batch.clone();
//! let serving = std::thread::spawn(move || {
//!     server.serve(|ticket| {
//!         assert_eq!(ticket, b"numbers");
//!         Ok(ArrayStream::new(sent.schema()?, DeviceType::CPU, [Ok(sent)]))
//!     })
//! });
//!
//! let mut client = Client::request(there, &location, b"numbers", ClientOptions::new())?;
//! let came = client.next().transpose()?.expect("a batch was sent");
//! assert!(came.as_array().equals(batch.as_array())?);
//! assert!(client.next().is_none());
//! // The client maps the memory of the server: no byte of the body was in a message.
//! assert_eq!(client.counts().packed_bytes, 0);
//! assert!(client.counts().shared_bytes >= 24);
//! drop((came, client));
//! let counts = serving.join().expect("the server has ended")?;
//! assert_eq!(counts.packed_bytes, 0);
//! # }
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # Messages
//!
//! The client asks for a stream by a ticket. The server sends headers in messages without a tag,
//! and each body in a message whose tag has the number of its header: packed, or as a list of
//! addresses. Messages may come in any order. The numbers tell the order, and repetitions are
//! passed over.
//!
//! # How bodies travel
//!
//! Where the server [shares](ServerOptions::sharing) a device, the transport carries memory, and
//! the [location](Location::sharing) names the domain of the device, a body is a list of addresses:
//! the bytes stay on the device, and never pass through messages or memory of the host. The server
//! keeps them until the client has freed their addresses, which the client does when the last array
//! of them is gone. In all other cases bodies are packed, and pass through memory of the host on
//! both sides. [`Counts`] tells how many bytes went which way.
//!
//! # What goes wrong
//!
//! | what | what happens |
//! |---|---|
//! | a message is lost | the client's wait for it ends with an error that names it |
//! | messages come again, or in another order | nothing |
//! | `free_data` is lost | the server keeps the memory until the connection ends, or its [linger](ServerOptions::linger) is over |
//! | the client ends or dies | the server lets go of all that it kept |
//! | the server ends or dies | the client's stream ends with an error; what came stays usable |
//! | the server fails | likewise: the protocol has no message that says why |
//! | the client does not read, or frees nothing | the server keeps no more than [its limit](ServerOptions::most_kept), and waits |
//!
//! # Trust
//!
//! As between the processes of `arrow-device-share`: neither side believes a number of the other
//! one. Sizes are compared with limits before memory is taken, and memory of the host that the
//! server could still change is refused. Memory of devices whose
//! [sharing needs trust](arrow_device::Device::sharing_needs_trust) is shared only between sides
//! that trust each other.

mod client;
mod counts;
mod incoming;
mod local;
mod location;
mod outgoing;
mod problem;
mod process;
mod server;
mod transport;
#[cfg(target_os = "linux")]
mod ucx;
#[cfg(target_os = "linux")]
mod unix;
mod wire;

pub use client::{Client, ClientOptions};
pub use counts::Counts;
pub use local::LocalTransport;
pub use location::Location;
pub use server::{Server, ServerOptions};
pub use transport::{Message, Received, Region, Transport};
#[cfg(target_os = "linux")]
pub use ucx::{UcxListener, UcxOptions, UcxTransport, ucx_version};
#[cfg(target_os = "linux")]
pub use unix::UnixTransport;
pub use wire::{BodyKind, BodyTag};

/// The programs of the page about the protocol.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../docs/dissociated.md")]
struct Page;
