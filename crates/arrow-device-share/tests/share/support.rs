//! What the tests share.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use arrow_device::{Array, Batch, DataType, Device};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_sim::Sim;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A sender and a receiver that are connected.
pub(crate) fn connected(devices: impl IntoIterator<Item = Device>) -> (Sender, Receiver) {
    let (one, other) = UnixStream::pair().unwrap();
    (Sender::new(one), Receiver::new(other, devices))
}

/// A batch of several types with so many rows, the same in every process.
pub(crate) fn batch(rows: i64) -> Batch {
    let numbers = (0..rows).map(|row| (row % 7 != 0).then_some(row * 3));
    let texts = (0..rows).map(|row| Some(format!("row {row} has a text of some length")));
    let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
    let views = Array::from_texts(DataType::Utf8View, texts.clone()).unwrap();
    let texts = Array::from_texts(DataType::Utf8, texts).unwrap();
    Batch::from_columns([("n", numbers), ("t", texts), ("v", views)]).unwrap()
}

/// The batch as an array in host memory that can be shared.
pub(crate) fn shareable(rows: i64) -> Array {
    to_shareable(batch(rows).as_array(), &Device::host()).unwrap()
}

/// A software device of a simulator of its own, as another process would have it.
pub(crate) fn software() -> (Sim, Device) {
    let sim = Sim::builder().backtraces(false).build();
    let device = sim.device();
    (sim, device)
}

/// The same, where both sides trust each other if their device asks for it.
pub(crate) fn connected_with(device: &Device) -> (Sender, Receiver) {
    let (sender, receiver) = connected([device.clone()]);
    (trusting_sender(sender, device), trusting_receiver(receiver, device))
}

/// A sender that trusts the other side if the device asks for it.
pub(crate) fn trusting_sender(sender: Sender, device: &Device) -> Sender {
    match device.sharing_needs_trust() {
        // SAFETY: UNS-38: the other side is a test, which writes to no memory that it receives.
        true => unsafe { sender.trusting() },
        false => sender,
    }
}

/// A receiver that trusts the other side if the device asks for it.
pub(crate) fn trusting_receiver(receiver: Receiver, device: &Device) -> Receiver {
    match device.sharing_needs_trust() {
        // SAFETY: UNS-38: the other side is a test. It writes to no memory that it sent, and sends
        // what its runtime exported, or other things of which the driver is known to tell that they
        // are no memory of its own.
        true => unsafe { receiver.trusting() },
        false => receiver,
    }
}

/// The longest wait for what comes soon.
pub(crate) const SOON: Option<Duration> = Some(Duration::from_secs(60));

pub(crate) fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Receives until the sender is gone, and keeps the last three arrays meanwhile.
pub(crate) fn receive_and_keep_few(mut receiver: Receiver) {
    let mut kept = Vec::new();
    while let Some(array) = receiver.receive().unwrap() {
        kept.push(array);
        if kept.len() > 3 {
            kept.remove(0);
        }
    }
}

/// As many descriptors as the system lets this process have. Returns whether they are enough.
pub(crate) fn may_have(descriptors: u64) -> bool {
    let limits = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limits.maximum, ..limits };
    let _ = setrlimit(Resource::Nofile, most);
    getrlimit(Resource::Nofile).current.is_none_or(|most| most >= descriptors)
}
