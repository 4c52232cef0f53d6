//! What most programs name: `use arrow_device::prelude::*`.
//!
//! `Error` and `Result` are left out, since programs have their own.

pub use crate::async_stream::ArraysExt;
pub use crate::{
    Array, ArrayStream, Batch, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind, Event,
    Field, Memory, Metadata, Queue, Schema, View,
};
