//! arrow-device for C and C++: a shared and a static library, and one header,
//! `include/arrow_device/arrow_device.h`.
//!
//! The header is the documentation. `docs/c.md` says how to build and install the library,
//! `examples/` has programs.
//!
//! ```text
//! include/arrow_device/arrow_device.h   every function and struct, and who owns what
//! include/arrow_device/driver.h         the table of functions of a device of one's own
//! include/arrow_device/schema.h         types: made, read, with metadata
//! include/arrow_device/share.h          arrays of one process in another one
//! include/arrow_device/vulkan.h         Vulkan devices of the application's
//! include/arrow_device/oneapi.h         oneAPI devices of the application's queues
//! include/arrow_device/arrow_device.hpp the same as classes of C++17, over that header
//!   result, data, exchange, share       its parts: errors and owners; arrays; streams and tensors;
//!                                       other processes
//! include/arrow_device/arrow_cpp.hpp    Arrow C++ and those classes
//! install.sh                            headers, libraries, pkg-config file and CMake package into a prefix
//! src/
//!   call                                what every function does: errors, panics, pointers
//!   sized                               structs that may grow
//!   error                               the caller's error struct
//!   context                             callbacks of the caller, and their end
//!   backends, memory_kinds, open        which devices there are, and opening them
//!   vulkan                              Vulkan devices, queues and memory of the application's
//!   oneapi                              oneAPI devices of the application's queues
//!   device, allocator, driver           devices; the caller's memory, the caller's device
//!   queue                               queues and events
//!   schema, schema_parts                types, and what they are made of
//!   buffer, build, values, array        bytes, and arrays from C and for C
//!   view, sizes                         access to the data; the sizes that only a device knows
//!   stream, source, asynchronous        streams
//!   share                               other processes, with a file for Linux and one elsewhere
//!   tensor                              DLPack
//!   release                             what is held back until its last use has passed
//! ```
//!
//! Each object is a box around the type of [`arrow_device`] with the same name. The seven rules at
//! the top of the header are what the `SAFETY` comments here refer to. A test compares every
//! prototype, struct and constant of the header with the functions, structs and constants here.
//!
//! What it does not do: it adds no feature to the library, and no state of its own but the software
//! devices that were opened.

#![expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the header says it for each function"
)]

mod allocator;
mod array;
mod asynchronous;
mod backends;
mod buffer;
mod build;
mod call;
mod context;
mod device;
mod driver;
mod error;
mod memory_kinds;
mod oneapi;
mod open;
mod queue;
mod release;
mod schema;
mod schema_parts;
mod share;
#[cfg(not(target_os = "linux"))]
mod share_elsewhere;
#[cfg(target_os = "linux")]
mod share_linux;
mod sized;
mod sizes;
mod source;
mod stream;
mod tensor;
mod values;
mod view;
mod vulkan;

pub use allocator::*;
pub use array::*;
pub use asynchronous::*;
pub use backends::*;
pub use buffer::*;
pub use build::*;
pub use context::ArdevRelease;
pub use device::*;
pub use driver::*;
pub use error::*;
pub use memory_kinds::*;
pub use oneapi::*;
pub use open::*;
pub use queue::*;
pub use release::*;
pub use schema::*;
pub use schema_parts::*;
pub use share::*;
pub use sizes::*;
pub use source::*;
pub use stream::*;
pub use tensor::*;
pub use values::*;
pub use view::*;
pub use vulkan::*;

/// The header's `ARDEV_VERSION_MAJOR`.
pub const ARDEV_VERSION_MAJOR: u32 = 0;
/// The header's `ARDEV_VERSION_MINOR`.
pub const ARDEV_VERSION_MINOR: u32 = 1;

#[unsafe(no_mangle)]
pub extern "C" fn ardev_version() -> u32 {
    ARDEV_VERSION_MAJOR << 16 | ARDEV_VERSION_MINOR
}
