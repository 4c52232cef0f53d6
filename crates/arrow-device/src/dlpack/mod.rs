//! DLPack: one tensor of plain numbers, shared with libraries that know nothing of Arrow.
//!
//! numpy, torch, jax and most other array libraries hand tensors to each other as a small C struct:
//! address, shape, strides, type, device, and a deleter. This module exports and imports that
//! struct, and converts between tensors and Arrow arrays: the same bytes, on the same device,
//! without a copy wherever the bytes allow that.
//!
//! ```text
//!   Array, Batch                   Tensor                         C
//!   ------------                   ------                         -
//!   array.to_tensor(..)  ------>   shape, strides, dtype  ---->   tensor.export(..) -> Managed
//!   batch.to_tensor(..)            on(&queue), host()
//!   tensor.to_array(..)  <------   copy(&queue)           <----   Tensor::import(pointer, order)
//!   tensor.to_batch(..)
//! ```
//!
//! # A column that another library made
//!
//! ```
//! use arrow_device::abi::dlpack::DLManagedTensorVersioned;
//! use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
//! use arrow_device::Buffer;
//!
//! // The producer, which could be torch: six numbers as two rows.
//! let numbers = Buffer::from(vec![1_i64, 2, 3, 4, 5, 6]);
//! let made = Tensor::from_buffer(numbers, Dtype::INT64, &[2, 3])?;
//! let handed_over: Managed<DLManagedTensorVersioned> =
//!     made.export(Order::Host, CopyPolicy::Never)?;
//!
//! // The consumer. All that the struct says is checked. A wrong struct is deleted, and an error.
//! let tensor = unsafe { Tensor::import(handed_over.into_raw(), Order::Host) }?;
//! assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 3][..], Dtype::INT64));
//! let rows = tensor.to_array(&Conversion::new())?;
//! assert_eq!(rows.len(), 2);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What is promised
//!
//! * **A tensor is deleted once**, when the last use is over, on whatever thread that is. A tensor
//!   that is refused is deleted before the error returns. Of a tensor with an unknown major
//!   version, only the deleter is used.
//! * **No access without order.** On export the consumer's queue is made to wait ([`Order::On`]),
//!   and no host blocks; on import an event is recorded on the queue that the producer was told of.
//! * **Nobody is told to write where that is not allowed.** Shared memory is exported as read-only.
//!   The older form has no flag for that, so memory is copied for it. An imported tensor that its
//!   producer may still write to does not become an array without a copy, unless the caller
//!   promises that nobody writes to it ([`Tensor::assume_frozen`]).
//! * **A copy is made only if it is allowed** ([`CopyPolicy`]).
//!
//! # When a consumer deletes
//!
//! A deleter has no argument for a stream, and libraries call it when their object dies, without a
//! wait for the work that they have submitted. An export therefore keeps the queue on which the
//! consumer works: the one of [`Order::On`], or else the default queue of the device
//! ([`Device::default_queue`](crate::Device::default_queue)). The deleter notes a use on that
//! queue, and the memory is released after the use. The deleter can be called on any thread and
//! waits for nothing. Host memory that was exported without a queue is released by the deleter
//! itself.
//!
//! # A stream that is advertised
//!
//! The functions for exchange without Python calls, which DLPack has in a table, take no stream. A
//! library tells by `current_work_stream` on which stream it works, and the other functions of its
//! table wait for nothing. A library that offers such a table keeps one queue for each device, and
//! keeps to two rules:
//!
//! * Tensors that it hands out are in the order of the advertised queue: they are exported with
//!   [`Order::On`] that queue, which waits for the data. With [`Order::Unordered`] data that is not
//!   ready would be read too early.
//! * Tensors that it takes over are ready after what was submitted to the advertised queue by then:
//!   [`Tensor::import_advertised`]. The producer may have submitted its work just now, and nothing
//!   says that the work is done.
//!
//! If the device has a default queue, advertise that one: other libraries work on it, too, and a
//! queue that is opened here is not ordered with theirs.
//!
//! # What other libraries do
//!
//! | what others do | what this library does |
//! |---|---|
//! | torch gives dimensions of one element any stride | such a stride is ignored |
//! | jax, TensorFlow and MLX take and give the older form only | both forms are imported; [`Tensor::export_for`] gives the older one to those who do not ask for more, with a copy of read-only memory |
//! | numpy refuses to export read-only memory in the older form | so does this library, where a copy is not allowed |
//! | torch, jax, TensorFlow and pyarrow refuse negative strides | negative strides are imported; [`Tensor::copy`] is compact |
//! | numpy and jax give an address to tensors without elements | the address is not looked at; an export has a null address |
//! | before version 1.2 null strides meant compact | null strides are imported as compact; an export always has strides |
//! | no library keeps to the alignment of 256 bytes that the header asks for | any address is imported; an array of elements that are not aligned is a copy |
//!
//! `docs/dlpack.md` in the repository has the table of what is shared and what is copied, which a
//! test writes.
//!
//! # What the module does not do
//!
//! The module computes nothing: types are not converted, and there is no arithmetic on elements.
//! On Metal, DLPack's `data` is an object and Arrow's an address: a driver of Metal that is open
//! translates ([`object_of`](crate::driver::Driver::object_of)), and without one tensors on Metal
//! are refused. A packed tensor, whose elements take less than a byte, is carried as a whole and
//! not sliced.

mod conversion;
mod copy;
mod device;
mod dims;
mod dtype;
mod elements;
mod export;
mod fixed_shape;
mod from_array;
mod from_batch;
mod host;
mod import;
mod managed;
mod memory;
mod on_host;
mod plan;
mod sole;
mod storage;
mod tensor;
mod to_array;

pub use conversion::{Conversion, CopyPolicy, Nulls, Order};
pub use device::{device_id, dl_device};
pub use dtype::{Dtype, Element};
pub use elements::HostElements;
pub use host::HostTensor;
pub use managed::{Exported, Form, Managed};
pub use tensor::{Tensor, TensorView};
