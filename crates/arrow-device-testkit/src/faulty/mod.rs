//! Real devices whose drivers have one fault, which a judge of devices has to find.
//!
//! [`Faulty`] wraps the driver of any device. Everything except the [`Fault`] comes from the driver
//! beneath, including the device's id, so whatever watches that driver sees what goes wrong. From
//! then on [`Device::find`] finds the wrapped device.
//!
//! Many mistakes have no effect where a runtime is kinder than a GPU: where work is done while it
//! is submitted, where all queues are one, where the host writes the very bytes that the device
//! reads. With [`late`](Faulty::late) work the wrapper causes the effect itself: a copy is made
//! when somebody waits for it, queues have an order of their own, and fresh memory holds a pattern.
//! A device with late work and without a fault keeps every promise of a driver.
//!
//! Without late work the runtime decides when work is done, and a fault is as dangerous as in any
//! driver: host memory that is freed too early may still be written. Choose checks in which nothing
//! is freed before the end, or run them in a process of their own.
//!
//! [`table`] has the [suite](crate::suite) judge each fault on a device, and shows the results.
//!
//! ```
//! use arrow_device_testkit::faulty::{Fault, Faulty};
//! use arrow_device_testkit::kinds::{Kind, cases_of};
//! use arrow_device_testkit::suite::Suite;
//!
//! let sim = arrow_device_sim::Sim::builder().backtraces(false).build();
//! let device = Faulty::of(&sim.device()).late().fault(Fault::QueueWait).open();
//! let report = Suite::new(&device).over(cases_of([Kind::Bits])).run();
//! assert!(!report.failures().is_empty());
//! # drop(device);
//! # sim.finish();
//! ```

mod blocks;
mod driver;
mod ends;
mod fault;
mod late;
mod shadows;
mod shared;
mod spoil;
mod submit;
mod table;

use std::sync::Arc;

use arrow_device::Device;

pub use ends::FaultyHand;
pub use fault::Fault;
pub use table::{FaultCell, FaultTable, report, report_turned, table};

use driver::FaultyDriver;
use shared::FaultyShared;

/// A device to be wrapped, with the fault that the wrapper adds. [`Faulty::of`] returns one.
#[derive(Clone, Debug)]
#[must_use = "nothing is wrapped before `open`"]
pub struct Faulty {
    device: Device,
    other: Option<Device>,
    fault: Option<Fault>,
    is_late: bool,
    may_wait: bool,
}

impl Faulty {
    /// Wraps a device without changing anything.
    pub fn of(device: &Device) -> Self {
        Self { device: device.clone(), other: None, fault: None, is_late: false, may_wait: true }
    }

    /// Adds a fault.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Makes work late: it is done when somebody waits for it, and not before. Handles of queues
    /// are then numbers of the wrapper, which mean nothing to the runtime beneath.
    pub fn late(mut self) -> Self {
        self.is_late = true;
        self
    }

    /// Makes work [late](Self::late), and does not let the host wait for it: an operation that
    /// would have to wait is [`NotReady`](arrow_device::ErrorKind::NotReady), and work is done in
    /// [`FaultyHand::turn`].
    pub fn polled(mut self) -> Self {
        self.may_wait = false;
        self.late()
    }

    /// Wraps a second device of the same runtime too, so that the work of both is in one order.
    pub fn beside(mut self, other: &Device) -> Self {
        self.other = Some(other.clone());
        self
    }

    /// Opens the wrapped device.
    pub fn open(&self) -> Device {
        self.open_both().0
    }

    /// Opens the wrapped device, and the one beside it.
    pub fn open_both(&self) -> (Device, Option<Device>) {
        let (device, other, _) = self.open_with_hand();
        (device, other)
    }

    /// Opens the wrapped device and the one beside it. Also returns the control that makes their
    /// work fail where work is late.
    pub fn open_with_hand(&self) -> (Device, Option<Device>, FaultyHand) {
        let is_late = self.is_late || self.fault.is_some_and(Fault::needs_late_work);
        let members = [Some(&self.device), self.other.as_ref()];
        let members: Vec<_> =
            members.into_iter().flatten().map(|device| device.driver().clone()).collect();
        let shared =
            Arc::new(FaultyShared::new(members.clone(), self.fault, is_late, self.may_wait));
        let mut opened =
            members.into_iter().map(|inner| Device::new(FaultyDriver::new(inner, shared.clone())));
        let device = opened.next().expect("the first device is always there");
        let other = opened.next();
        drop(opened);
        (device, other, FaultyHand(shared))
    }
}
