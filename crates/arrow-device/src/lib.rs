//! Share Arrow data that lives on a device between any two runtimes in a process, without copying
//! it.
//!
//! A query engine has a table on a GPU. A model in the same process wants to read it. Neither knows
//! the other, and the data must not go through the host. The [Arrow C device data interface] says
//! how: the one fills a small C struct with device addresses, an event and a callback, the other
//! waits for the event, uses the addresses and calls back. This crate is both sides of that struct,
//! for every Arrow type and all fourteen types of device.
//!
//! ```text
//!   producer                                                     consumer
//!   --------                                                     --------
//!   Array::builder(..)            ArrowDeviceArray               Array::import(&mut c_array, &schema)
//!     .buffers([..])            +------------------+                 checks all that host memory can show
//!     .finish_on(&queue) -----> | addresses, event | ----------> array.on(&queue) -> View
//!   array.export(&mut c_array)  | release          |                 the queue waits for the event
//!                               +------------------+             view.buffer(1).location()
//!   memory is freed  <------------- release() <----------------  drop, after the last use
//! ```
//!
//! # In a minute
//!
//! A producer puts an array together from buffers and hands it over. A consumer that knows nothing
//! of the producer takes it and reads it. Here both are on the host; on a GPU only the queue is
//! another.
//!
//! ```
//! use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
//! use arrow_device::{Array, DataType, Queue, Schema};
//!
//! // The producer: three numbers, the second one null, and their type.
//! let buffers = [Some(vec![0b101_u8].into()), Some(vec![10_i32, 0, 30].into())];
//! let numbers = Array::builder(DataType::Int32).len(3).null_count(1).buffers(buffers);
//! let numbers = numbers.finish_ready()?;
//! let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
//! numbers.schema()?.export(&mut c_schema)?;
//! numbers.export(&mut c_array)?;
//! drop(numbers);
//!
//! // The consumer: whatever the structs say that cannot be is an error here. No data was read yet.
//! let schema = unsafe { Schema::import(&mut c_schema) }?;
//! let array = unsafe { Array::import(&mut c_array, &schema) }?;
//! assert_eq!(array.data_type(), &DataType::Int32);
//!
//! // Addresses are told to whoever names the queue that will use them. The queue now waits for the
//! // data.
//! let queue = Queue::host();
//! let view = array.on(&queue)?;
//! let values = view.buffer(1).location().address();
//! assert!(!values.is_null());
//!
//! // Or the host waits, and reads where the data lies.
//! assert_eq!(array.host()?.buffer(1)?[8..12], 30_i32.to_ne_bytes());
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What it promises
//!
//! 1. **Nothing is touched on the host that lives on a device.** Import, export, slicing and
//!    checking never read through a buffer pointer.
//! 2. **No access without order.** In safe code a device address can only be had by naming the
//!    queue that will use it; that queue then waits for the array's event. And memory is not handed
//!    back while a queue still uses it: dropping an array that was used on a queue defers its
//!    release until that use has passed (see [`deferred`]).
//!    A child of `fork` uses none of its parent's devices, and once the process has begun to end no
//!    driver is called: both are errors, and nothing is freed that a queue may still use. Host
//!    arrays without events stay usable.
//! 3. **Somebody else's malformed struct is an error value**, with the place in the tree where the
//!    mistake is. What was passed is released exactly once. No panic reaches a C caller,
//!    and none of a driver or an owner gets out of the library.
//! 4. **It costs next to nothing.** An exported tree is one allocation however many columns it has,
//!    and none where one is recycled. An import is two. No device is called unless a queue was
//!    named.
//!
//! `docs/safety.md` in the repository has the guarantees to safe code in full, each with a number
//! that its tests name, and the obligations of unsafe callers (UNS) and of drivers (DRV) that the
//! `# Safety` sections here cite.
//!
//! # Where things are
//!
//! | to | use |
//! |---|---|
//! | describe a type | [`DataType`], [`Field`], [`Schema`] |
//! | build an array, or take one over | [`Array::builder`], [`Array::import`], [`Batch`] |
//! | use it on a device | [`Array::on`], [`View`], [`Queue`] |
//! | read it on the host | [`Array::host`], [`HostArray`] |
//! | copy it to the host, to a device, between devices | [`Array::to_host`], [`Array::copy_to`], [`copy`] |
//! | the same on a thread that may not block | [`Array::fetch`], [`Array::copy_polled`] |
//! | bring your own allocator, see what is held | [`Device::with_allocator`], [`Recycler`], [`Device::held`] |
//! | build and read small arrays with Rust values | [`Array::from_values`] and its like, [`HostArray::values`], [`Value`] |
//! | check what somebody else handed over | [`validate`] |
//! | hand it on | [`Array::export`], [`Array::export_on`], [`Array::export_settled`] |
//! | hand over many of one type, or take them over, one after the other | [`ArrayStream`] |
//! | the same, pushed by a producer as they are asked for | [`async_stream`] |
//! | bring your own memory | [`Buffer::foreign`], [`Device::allocate`] |
//! | bring your own device | [`driver::Driver`] |
//! | exchange tensors with numpy, torch and jax | [`dlpack`], [`Array::to_tensor`] |
//! | know what an address, an id or an event means on a device | [`convention`] |
//! | see the C structs themselves | [`abi`] |
//!
//! # What it does not do
//!
//! It computes nothing, and it brings no vendor's library: each backend is a crate of its own that
//! implements [`driver::Driver`]. One of them, `arrow-device-sim`, is made of software, and finds
//! in tests the mistakes that a GPU shows only by chance.
//!
//! [Arrow C device data interface]: https://arrow.apache.org/docs/format/CDeviceDataInterface.html

mod array;
pub mod async_stream;
mod clock;
pub mod convention;
pub mod copy;
mod device;
mod device_id;
pub mod dlpack;
mod errno;
mod error;
mod ffi;
mod node_path;
mod numbered;
mod once;
mod pool;
mod process;
mod schema;
mod stream;
mod sync;
mod unwind;
pub mod validate;
mod values;

pub use array::{
    Array, ArrayBuilder, Batch, BufferPlace, HostArray, HostBytes, NodeView, Ready, View,
};
pub use device::{
    Allocator, Buffer, BufferView, Device, Event, Extent, Held, KeepAlive, Location, Memory, Plain,
    Queue, Recycler, deferred, driver,
};
pub use device_id::{DeviceId, DeviceType};
pub use error::{Error, ErrorKind, Result, Vendor};
pub use node_path::{NodePath, Step};
pub use schema::{
    BufferKind, DataType, Extension, Field, IntervalUnit, Layout, Metadata, MetadataPairs, Schema,
    Text, TimeUnit, UnionMode,
};
pub use stream::ArrayStream;
pub use values::{Bools, Bytes, Decimal, Lists, Native, Texts, Value, Values};

/// The C structs themselves, as other languages see them.
pub use arrow_device_abi as abi;
