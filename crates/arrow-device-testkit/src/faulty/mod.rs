//! Real devices whose drivers have one fault: what a judge of devices has to find.
//!
//! [`Faulty`] wraps the driver of any device. Everything but the [`Fault`] comes from the driver
//! beneath, the device's id too, so that whatever watches that one sees what goes wrong. The
//! wrapped device is what [`Device::find`] finds from then on.
//!
//! Many mistakes have no effect where a runtime is kinder than a GPU: where work is done while it
//! is submitted, where all queues are one, where the host writes the very bytes that the device
//! reads. With [`late`](Faulty::late) work the wrapper plants the effect itself: a copy is made
//! when somebody waits for it, queues have an order of their own, and fresh memory holds a pattern.
//! A device with late work and without a fault keeps every promise of a driver.
//!
//! Without late work the wrapper leaves the pace to the runtime, and a fault is as dangerous there
//! as in any driver: host memory that is freed too early may still be written. Choose checks in
//! which nothing is freed before the end, or a process of its own.
//!
//! [`table`] has the [suite](crate::suite) judge each fault on a device and says what came of it.
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

/// A device that is to be wrapped, and what is to be wrong with it. Begun with [`Faulty::of`].
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
    /// The device as it is.
    pub fn of(device: &Device) -> Self {
        Self { device: device.clone(), other: None, fault: None, is_late: false, may_wait: true }
    }

    /// The device with this fault.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Work is done when somebody waits for it, and not before. Handles of queues are then numbers
    /// of the wrapper's, which are of no use to the runtime beneath.
    pub fn late(mut self) -> Self {
        self.is_late = true;
        self
    }

    /// Work is [late](Self::late), and the host may not wait for it: what would have to wait is
    /// [`NotReady`](arrow_device::ErrorKind::NotReady), and work is done in
    /// [`FaultyHand::turn`].
    pub fn polled(mut self) -> Self {
        self.may_wait = false;
        self.late()
    }

    /// Another device of the runtime, which is wrapped along, so that work on both has one order.
    pub fn beside(mut self, other: &Device) -> Self {
        self.other = Some(other.clone());
        self
    }

    /// The device.
    pub fn open(&self) -> Device {
        self.open_both().0
    }

    /// The device, and the one beside it.
    pub fn open_both(&self) -> (Device, Option<Device>) {
        let (device, other, _) = self.open_with_hand();
        (device, other)
    }

    /// The device, the one beside it, and what makes their work fail where work is late.
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
