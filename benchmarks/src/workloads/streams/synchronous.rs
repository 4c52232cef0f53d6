//! Streams by this library, on one thread.

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{ArrayStream, Batch, DeviceType};

use super::{COLUMNS, batch};
use crate::case::{Case, Peer};
use crate::meter::Meter;

/// One of the two C structs.
type Through = fn(ArrayStream) -> ArrayStream;

pub(super) fn cases() -> Vec<Case> {
    let of = |columns| {
        let case = |shape, through: Through| {
            let mut stream = through(endless(&batch(columns)));
            let once = move || drop(stream.next().unwrap().unwrap());
            Case::whole(("stream", shape, columns), Peer::ArrowDevice, once)
        };
        [case("device batch", device), case("host batch", host), case("forwarded batch", forwarded)]
    };
    COLUMNS.into_iter().flat_map(of).collect()
}

pub(super) fn count(columns: u64, meter: &mut Meter) {
    count_through(columns, device, meter);
}

pub(super) fn count_host(columns: u64, meter: &mut Meter) {
    count_through(columns, host, meter);
}

pub(super) fn count_forwarded(columns: u64, meter: &mut Meter) {
    count_through(columns, forwarded, meter);
}

fn count_through(columns: u64, through: Through, meter: &mut Meter) {
    let mut stream = through(endless(&batch(columns)));
    stream.by_ref().take(4).for_each(|array| drop(array.unwrap()));
    meter.measure(|| drop(stream.next().unwrap().unwrap()));
}

fn endless(batch: &Batch) -> ArrayStream {
    let schema = batch.schema().unwrap();
    ArrayStream::new(schema, DeviceType::CPU, std::iter::repeat(batch.clone()).map(Ok))
}

fn device(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    // SAFETY: it was just filled.
    unsafe { ArrayStream::import(&raw mut c_stream) }.unwrap()
}

fn host(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowArrayStream::empty();
    stream.export_host(&mut c_stream).unwrap();
    // SAFETY: it was just filled.
    unsafe { ArrayStream::import_host(&raw mut c_stream) }.unwrap()
}

/// What was read is handed on, and read again.
fn forwarded(stream: ArrayStream) -> ArrayStream {
    device(device(stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::streams::{ROWS, last};

    #[test]
    fn what_comes_out_is_what_went_in() {
        for through in [device, host, forwarded] {
            let mut stream = through(endless(&batch(10)));
            for _ in 0..3 {
                let read = stream.next().unwrap().unwrap();
                assert_eq!((read.len() as i64, read.child_count()), (ROWS, 10));
                assert_eq!(last(&read), ROWS - 1);
            }
        }
    }
}
