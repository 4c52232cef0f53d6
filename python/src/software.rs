//! The software device, for tests of programs that have no device: two simulated ones that cannot
//! reach each other.

use std::sync::OnceLock;

use arrow_device::driver::PerProcess;
use arrow_device::{Device, DeviceId, Error, ErrorKind, Result};
use arrow_device_sim::Sim;

use crate::found::{Found, number};

/// How many there are.
const DEVICES: usize = 2;

fn simulator() -> &'static Sim {
    // A child of `fork` has a simulator of its own.
    static SIMULATOR: PerProcess<OnceLock<Sim>> = PerProcess::new(OnceLock::new());
    // Its reports name lines of programs, and those are Python's here.
    SIMULATOR.get().get_or_init(|| Sim::builder().devices(DEVICES).backtraces(false).build())
}

pub(crate) fn list() -> Result<Vec<Found>> {
    let name = |device: &Device| device.properties().name.clone();
    let found = |place| {
        let device = simulator().device_number(place);
        Found { id: device.id(), name: name(&device) }
    };
    Ok((0..DEVICES).map(found).collect())
}

/// Opens one by its place, or by the number that it carries in arrays.
pub(crate) fn open(id: DeviceId) -> Result<Device> {
    if Sim::is_ours(id) {
        let by_number = (0..DEVICES).map(|number| simulator().device_number(number));
        if let Some(device) = by_number.into_iter().find(|device| device.id() == id) {
            return Ok(device);
        }
        let message = "this software device is of another process, as in a child of `fork`: copy data to the host before \
                       the fork, or open a device in the child";
        return Err(Error::new(ErrorKind::DeviceMissing, message).on_device(id));
    }
    match usize::try_from(id.id) {
        Ok(number) if number < DEVICES => Ok(simulator().device_number(number)),
        _ => {
            let message = format!("the software device has the numbers 0 to {}", DEVICES - 1);
            Err(Error::new(ErrorKind::DeviceMissing, message).on_device(id))
        }
    }
}

/// What people call a software device: by its place, and not by the number that arrays carry.
pub(crate) fn called(id: DeviceId) -> DeviceId {
    if !Sim::is_ours(id) {
        return id;
    }
    let place = (0..DEVICES).find(|place| simulator().device_number(*place).id() == id);
    place.map_or(id, |place| DeviceId::new(id.device_type, number(place)))
}

/// What the software device has found to be wrong since the last call.
pub(crate) fn take_reports() -> Vec<String> {
    simulator().take_reports().iter().map(ToString::to_string).collect()
}

/// Does all work that was submitted and can run.
pub(crate) fn run_until_idle() {
    simulator().run_until_idle();
}
