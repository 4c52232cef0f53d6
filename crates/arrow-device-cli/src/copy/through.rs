//! A stream through devices: each takes a C device stream and hands on a C device stream.

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device::copy::Options;
use arrow_device::{ArrayStream, Queue, Result};

use crate::backends::Opened;

/// The stream by way of all of them, and back on the host.
pub(super) fn all(stream: ArrayStream, opened: &[Opened]) -> Result<ArrayStream> {
    let (mut stream, mut last) = (stream, Queue::host());
    for opened in opened {
        let queue = opened.device.open_queue()?;
        stream = one(stream, &last, &queue)?;
        last = queue;
    }
    one(stream, &last, &Queue::host())
}

/// Copies each array from the device of one queue to that of the other.
fn one(stream: ArrayStream, from: &Queue, to: &Queue) -> Result<ArrayStream> {
    // Nothing is cut, so that the shape stays the same node by node, as the checksum asks.
    let options = Options::new().trim(false).through(from);
    let (schema, device_type) = (stream.schema().clone(), to.device().id().device_type);
    let to = to.clone();
    let copies = stream.map(move |array| array?.copy_with(&to, &options));
    let mut c_stream = ArrowDeviceArrayStream::empty();
    ArrayStream::new(schema, device_type, copies).export(&mut c_stream);
    // SAFETY: this crate's own export filled it, as the C device stream interface says.
    unsafe { ArrayStream::import(&mut c_stream) }
}
