//! Share Arrow data that lives on a device between any two runtimes in a process, without copying
//! it.
//!
//! A query engine has a table on a GPU, and a model in the same process wants to read it. Neither
//! knows the other, and the data must not pass through the host. The [Arrow C device data
//! interface] says how: the producer fills a small C struct with device addresses, an event and a
//! callback. The consumer waits for the event, uses the addresses, and calls the callback. This
//! crate is for both sides, for every Arrow type and all fourteen types of device.
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
//! A producer builds an array from buffers and exports it. A consumer that knows nothing of the
//! producer imports the array and reads it. In this example both are on the host. For a GPU, open a
//! device with the crate of its [backend](#other-crates) and use a queue of that device.
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
//! // The consumer: structs that contradict themselves or the type are an error here. No data is
//! // read.
//! let schema = unsafe { Schema::import(&mut c_schema) }?;
//! let array = unsafe { Array::import(&mut c_array, &schema) }?;
//! assert_eq!(array.data_type(), &DataType::Int32);
//!
//! // Name the queue that will use the addresses. The queue now waits for the data.
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
//! 1. **The host reads nothing that lives on a device.** Import, export, slicing and checking never
//!    read through a buffer pointer.
//! 2. **No access without order.** Safe code gets a device address only by naming the queue that
//!    will use it; that queue then waits for the array's event. Memory is not handed back while a
//!    queue still uses it: dropping an array that was used on a queue defers its release until that
//!    use has passed (see [`deferred`]). A child of `fork` uses none of its parent's devices, and
//!    no driver is called once the process has begun to end. A call that would need a driver then
//!    is an error, and nothing is freed that a queue may still use. Host arrays without events stay
//!    usable.
//! 3. **Somebody else's malformed struct is an error value**, with the place in the tree where the
//!    mistake is. What was passed is released exactly once. No panic reaches a C caller, and no
//!    panic of a driver or an owner leaves the library.
//! 4. **An exchange costs next to nothing.** An exported tree is one allocation however many
//!    columns it has, and an imported tree is one or two; there is none where a block is recycled.
//!    No device is called unless a queue was named.
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
//! | copy on a thread that may not block | [`Array::fetch`], [`Array::copy_polled`] |
//! | wait for events, data and copies in asynchronous code | [`AwaitedEvent`], [`Array::until_ready`], [`Array::to_host_async`] |
//! | bring your own allocator, see what is held | [`Device::with_allocator`], [`Recycler`], [`Device::held`] |
//! | build and read small arrays with Rust values | [`Array::from_values`] and its like, [`HostArray::values`], [`Value`] |
//! | build and read arrays of a type that the compiler knows | [`types`], [`Array::of`] |
//! | check what somebody else handed over | [`validate`] |
//! | hand it on | [`Array::export`], [`Array::export_on`], [`Array::export_settled`] |
//! | hand over many arrays of one type, or take them over, one after the other | [`ArrayStream`] |
//! | take over arrays that a producer pushes as they are asked for, or push them | [`async_stream`] |
//! | copy the arrays of a stream ahead of their use | [`ArrayStream::copy_to`], [`ArrayStream::prefetch`] |
//! | bring your own memory | [`Buffer::foreign`], [`Device::allocate`] |
//! | bring your own device | [`driver::Driver`] |
//! | exchange tensors with numpy, torch and jax | [`dlpack`], [`Array::to_tensor`] |
//! | know what an address, an id or an event means on a device | [`convention`] |
//! | see the C structs themselves | [`abi`] |
//! | name what most programs need in one line | [`prelude`] |
//!
//! # Other crates
//!
//! | crate | what it adds |
//! |---|---|
//! | `arrow-device-cuda`, `arrow-device-rocm`, `arrow-device-opencl`, `arrow-device-vulkan`, `arrow-device-metal`, `arrow-device-oneapi`, `arrow-device-hexagon`, `arrow-device-vpi`, `arrow-device-webgpu`, `arrow-device-wgpu` | backends: devices of that kind. The vendor's library is loaded at run time; only `arrow-device-wgpu` is built on the crate `wgpu` |
//! | `arrow-device-sim` | a device made of software, which finds in tests the mistakes that a GPU shows only by chance |
//! | `arrow-device-arrow` | arrays, batches, readers and streams of arrow-rs |
//! | `arrow-device-datafusion` | tables and plans of DataFusion over data on devices |
//! | `arrow-device-ipc` | Arrow IPC, the stream and the file format |
//! | `arrow-device-flight`, `arrow-device-dissociated` | Arrow Flight, and Arrow's Dissociated IPC protocol, to and from devices |
//! | `arrow-device-share` | arrays and streams for other processes of the machine, without a copy |
//! | `arrow-device-testkit`, `arrow-device-check` | tests for your own driver, producer or consumer |
//!
//! This crate computes nothing, and needs no vendor's library: each backend is a crate of its own
//! that implements [`driver::Driver`].
//!
//! [Arrow C device data interface]: https://arrow.apache.org/docs/format/CDeviceDataInterface.html

mod array;
pub mod async_stream;
mod bits;
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
pub mod prelude;
mod process;
mod schema;
#[cfg(feature = "serde")]
mod serialized;
mod stream;
mod sync;
mod trace;
pub mod types;
mod unwind;
mod utf8;
pub mod validate;
mod values;

pub use array::{
    Array, ArrayBuilder, ArrayReady, Batch, BufferPlace, HostArray, HostBytes, NodeView, Ready,
    View, WithinBuilder,
};
pub use device::{
    Allocator, AwaitedEvent, Buffer, BufferView, Device, Event, Extent, Held, KeepAlive, Location,
    Memory, Plain, Queue, Recycler, deferred, driver,
};
pub use device_id::{DeviceId, DeviceType};
pub use error::{Error, ErrorKind, Result, Vendor};
pub use node_path::{NodePath, Step};
pub use schema::{
    BufferKind, DataType, Extension, Field, IndexType, IntervalUnit, Layout, Metadata,
    MetadataPairs, Schema, Text, TimeUnit, UnionMode,
};
pub use stream::ArrayStream;
pub use values::{
    Bools, Bytes, Decimal, IntoValues, Lists, Native, Texts, Value, Values, ValuesIter,
};

/// The C structs themselves, as other languages see them.
pub use arrow_device_abi as abi;
