//! The names that most programs need: `use arrow_device::prelude::*`.
//!
//! `Error` and `Result` are left out, because programs have their own.

pub use crate::async_stream::ArraysExt;
pub use crate::{
    Array, ArrayStream, Batch, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind, Event,
    Field, Memory, Metadata, Queue, Schema, View,
};
