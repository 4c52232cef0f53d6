//! What `stream` means in DLPack's Python methods: an integer, whose meaning depends on the type of
//! the device.

use arrow_device::dlpack::Order;
use arrow_device::driver::Raw;
use arrow_device::{DeviceId, DeviceType, Queue};
use pyo3::prelude::*;

use crate::device;
use crate::error::invalid;

/// How the consumer knows that the data is complete.
#[derive(Debug)]
pub(crate) enum Ordered {
    /// The host waits.
    Host,
    /// By an agreement of its own.
    Unordered,
    /// Its queue waits.
    On(Queue),
}

impl Ordered {
    pub(crate) fn order(&self) -> Order<'_> {
        match self {
            Self::Host => Order::Host,
            Self::Unordered => Order::Unordered,
            Self::On(queue) => Order::On(queue),
        }
    }
}

/// What an integer stands for.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Host,
    NoSync,
    Handle(usize),
}

/// The order that a consumer asks for on this device.
pub(crate) fn order(py: Python<'_>, on: DeviceId, stream: Option<i64>) -> PyResult<Ordered> {
    Ok(match meaning(on.device_type, stream).map_err(invalid)? {
        Meaning::Host => Ordered::Host,
        Meaning::NoSync => Ordered::Unordered,
        Meaning::Handle(handle) => {
            let device = device::open(py, on)?.device;
            let default = device.default_queue();
            if let Some(queue) = default.filter(|queue| queue.raw().bits() == handle) {
                return Ok(Ordered::On(queue));
            }
            // SAFETY: the protocol makes the integer a stream of this device, which stays open
            // until the deleter has returned (UNS-34). The default stream of a thread is told to
            // wait on this thread, the consumer's.
            Ordered::On(unsafe { device.adopt_queue(Raw::from_bits(handle)) })
        }
    })
}

/// An exception where no stream of this device is named so.
pub(crate) fn check(of: DeviceId, stream: Option<i64>) -> PyResult<()> {
    meaning(of.device_type, stream).map(drop).map_err(invalid)
}

/// Whether a consumer of tensors on this type of device passes its stream.
pub(crate) fn are_passed(of: DeviceType) -> bool {
    matches!(
        of,
        DeviceType::CUDA | DeviceType::CUDA_MANAGED | DeviceType::ROCM | DeviceType::EXT_DEV
    )
}

fn meaning(of: DeviceType, stream: Option<i64>) -> Result<Meaning, String> {
    let handle = |number: i64| usize::try_from(number).map(Meaning::Handle);
    let wrong = |what: &str| Err(format!("`stream` {what} on {of}"));
    match (of, stream) {
        (_, Some(-1)) => Ok(Meaning::NoSync),
        (_, Some(number)) if number < 0 => wrong("is -1, a stream or None"),
        // 1 and 2 are the driver's own names for the default streams.
        (DeviceType::CUDA | DeviceType::CUDA_MANAGED, None) => Ok(Meaning::Handle(1)),
        (DeviceType::CUDA | DeviceType::CUDA_MANAGED, Some(0)) => {
            wrong("0 could be either default stream: pass 1 or 2")
        }
        (DeviceType::ROCM, None) => Ok(Meaning::Handle(0)),
        (DeviceType::ROCM, Some(1 | 2)) => wrong("1 and 2 are no streams"),
        (_, Some(number)) if are_passed(of) => handle(number).or_else(|_| wrong("is no handle")),
        (_, None) => Ok(Meaning::Host),
        (_, Some(_)) => wrong("has to be None"),
    }
}
