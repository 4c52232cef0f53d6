//! The C structs and constants of the Arrow C data, stream, device and asynchronous interfaces and
//! of DLPack.
//!
//! Two libraries in one process can share memory if they agree on a struct. There are two families
//! of such structs:
//!
//! * **Arrow** (at the root of this crate) shares *columns*. An [`ArrowSchema`] says what type a
//!   column has and an [`ArrowArray`] where its buffers are: validity, offsets, values, children.
//!   [`ArrowDeviceArray`] adds which device the buffers are on and an event to wait for.
//!   [`ArrowArrayStream`] and [`ArrowDeviceArrayStream`] are pulled for one array after the other;
//!   an [`ArrowAsyncDeviceStreamHandler`] has them pushed.
//! * **[DLPack](dlpack)** shares *one tensor* of plain numbers: address, shape, strides, device. A
//!   [`DLManagedTensorVersioned`](dlpack::DLManagedTensorVersioned) is a tensor with the way to
//!   give it back.
//!
//! Arrow and DLPack use the same numbers for the same kinds of device. They differ in who
//! allocates. An Arrow struct is allocated by the consumer, filled by the producer, moved by
//! copying its bytes, and released by its `release` callback. A DLPack tensor is allocated by the
//! producer, stays where it is, and is given back by its `deleter`.
//!
//! This crate only declares: it has no allocation, no check, no `Drop`, no dependency, no `std`.
//! Fields are public, a struct that owns something cannot be cloned, and dropping one releases
//! nothing. Use `arrow-device` for safe import and export; use this crate to write a producer or
//! consumer of your own:
//!
//! ```
//! use arrow_device_abi::{ARROW_DEVICE_CPU, ArrowArray, ArrowDeviceArray};
//!
//! // A producer's callback: give back what the array holds, then mark it released.
//! unsafe extern "C" fn release(array: *mut ArrowArray) {
//!     // SAFETY: whoever calls `release` passes a live array of the producer that set it.
//!     unsafe { (*array).release = None };
//! }
//!
//! // The consumer allocates the base structure ...
//! let mut received = ArrowDeviceArray::empty();
//! assert!(received.is_released());
//!
//! // ... the producer fills it ...
//! received.device_type = ARROW_DEVICE_CPU;
//! received.device_id = -1;
//! received.array.release = Some(release);
//!
//! // ... and the consumer releases it when it is done.
//! if let Some(release) = received.array.release {
//!     // SAFETY: `received` is live and its `release` has not been called.
//!     unsafe { release(&mut received.array) };
//! }
//! assert!(received.is_released());
//! ```
//!
//! # Where the specification disagrees with itself
//!
//! The text of the asynchronous interface and its code block differ in three places. This crate
//! takes the side of the `abi.h` that Arrow ships: [`ArrowAsyncProducer`] has no `release`,
//! `request` takes an `int64_t`, and the struct is called [`ArrowAsyncTask`]. The reasons are at
//! [`ArrowAsyncProducer`].
//!
//! # The same in C
//!
//! `include/arrow_device/abi.h` and `include/arrow_device/dlpack_abi.h` have the same declarations
//! for C11 and C++17, under the canonical guards, so that they can be included beside any other
//! copy. They check the layout of whichever copy was seen first. Sizes and offsets are also checked
//! here when this crate is compiled for a 64-bit target.
#![no_std]

mod async_stream;
mod data;
mod device;
mod device_stream;
pub mod dlpack;
mod stream;

pub use async_stream::{ArrowAsyncDeviceStreamHandler, ArrowAsyncProducer, ArrowAsyncTask};
pub use data::{
    ARROW_FLAG_DICTIONARY_ORDERED, ARROW_FLAG_MAP_KEYS_SORTED, ARROW_FLAG_NULLABLE, ArrowArray,
    ArrowSchema,
};
pub use device::{
    ARROW_DEVICE_CPU, ARROW_DEVICE_CUDA, ARROW_DEVICE_CUDA_HOST, ARROW_DEVICE_CUDA_MANAGED,
    ARROW_DEVICE_EXT_DEV, ARROW_DEVICE_HEXAGON, ARROW_DEVICE_MAIA, ARROW_DEVICE_METAL,
    ARROW_DEVICE_ONEAPI, ARROW_DEVICE_OPENCL, ARROW_DEVICE_ROCM, ARROW_DEVICE_ROCM_HOST,
    ARROW_DEVICE_TRAINIUM, ARROW_DEVICE_VPI, ARROW_DEVICE_VULKAN, ARROW_DEVICE_WEBGPU,
    ArrowDeviceArray, ArrowDeviceType,
};
pub use device_stream::ArrowDeviceArrayStream;
pub use stream::ArrowArrayStream;
