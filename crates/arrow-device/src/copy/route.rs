//! The way that the data of a copy takes.

use super::options::Options;
use super::source::{CopySource, Lane};
use super::step;
use crate::device::driver::{HostAccess, Raw, WaitingCopies};
use crate::{Array, Device, DeviceId, DeviceType, Error, ErrorKind, Queue, Result};

/// How data gets from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// The data is on the destination already, and is shared.
    Shared,
    /// The host copies it.
    HostCopy,
    /// The device reads host memory.
    FromHost,
    /// The device writes host memory.
    ToHost,
    /// The device copies within its own memory.
    Within,
    /// The device reads another device of the same runtime.
    FromPeer,
}

/// One step on the way of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hop {
    /// How the data moves.
    pub way: Way,
    /// The device that the data comes from.
    pub from: DeviceId,
    /// The device that the data goes to.
    pub to: DeviceId,
    /// How many bytes move.
    pub bytes: u64,
    /// In how many regions the bytes move.
    pub regions: u64,
    /// In how many calls the driver gets the regions.
    pub submissions: u64,
}

/// The way of a whole copy.
#[derive(Clone, Debug)]
pub(super) enum CopyRoute {
    /// From the host to the host.
    Gather,
    FromHost,
    ToHost,
    Within,
    Peer(Device),
    /// Through host memory, chunk by chunk.
    Staged,
}

impl CopyRoute {
    /// Whether no byte passes through host memory on its way.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self, Self::Within | Self::Peer(_))
    }
}

/// Who waits for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The thread that copies waits.
    Waits,
    /// The thread that starts the copy waits, but only for memory and not for another copy.
    Started,
    /// Nobody waits. Nothing is mapped, since a mapping may wait (DRV-5), and the source is not
    /// waited for here.
    Polled,
}

/// Chooses the way, and how the source is read on it. `None` where the array is shared, so that
/// nothing moves.
pub(super) fn choose(
    array: &Array,
    queue: &Queue,
    options: &Options,
    pace: Pace,
) -> Result<Option<(CopyRoute, CopySource)>> {
    array.tree().check_process()?;
    let (from, to) = (array.device(), queue.device().id());
    let is_host = |id: DeviceId| id.device_type == DeviceType::CPU;
    let is_same = array.tree().is_with(queue);
    let is_there = is_same || (is_host(from) && is_host(to));
    if is_there && !options.always {
        return Ok(None);
    }
    if is_host(from) {
        if pace == Pace::Waits {
            wait(array)?;
        }
        let route = if is_host(to) { CopyRoute::Gather } else { CopyRoute::FromHost };
        return Ok(Some((route, CopySource::Host)));
    }
    if is_same && !is_host(to) {
        require_no_wait(queue, pace)?;
        let properties = queue.device().properties();
        let lane = Lane::new(array, Some(queue.clone()), properties.copy_unit);
        return Ok(Some((CopyRoute::Within, CopySource::Lane(lane))));
    }
    // Another runtime's device may be open by the id that this device reaches, hence the question.
    if !is_host(to) && from != to && array.tree().require_reach(queue).is_ok() {
        let peer = array.open_device()?;
        let unit = queue.device().properties().copy_unit;
        let has_same_unit = peer.properties().copy_unit == unit;
        if peer.driver().runtime() == queue.driver().runtime() && has_same_unit {
            if let Some(through) = &options.through {
                through.require_units(from, || array.tree().open_device())?;
            }
            require_no_wait(queue, pace)?;
            let lane = Lane::new(array, options.through.clone(), unit);
            return Ok(Some((CopyRoute::Peer(peer), CopySource::Lane(lane))));
        }
    }
    // The host is in the middle, or is one of the two ends.
    let device = match &options.through {
        Some(through) => {
            through.require_units(from, || array.tree().open_device())?;
            through.device().clone()
        }
        None => array.open_device()?,
    };
    let unit = device.properties().copy_unit;
    if options.through.is_none() && pace == Pace::Waits {
        let is_mapped = device.properties().host_access == HostAccess::Mapped;
        if is_mapped && maps_in_place(array, &device) {
            wait(array)?;
            let route = if is_host(to) { CopyRoute::Gather } else { CopyRoute::FromHost };
            return Ok(Some((route, CopySource::Mapped(device))));
        }
    }
    let route = if is_host(to) { CopyRoute::ToHost } else { CopyRoute::Staged };
    let lane = Lane::new(array, options.through.clone(), unit);
    Ok(Some((route, CopySource::Lane(lane))))
}

/// An error for a polled copy on a device whose copies all wait. A copy through host memory is not
/// refused here: the kind of its host memory decides.
fn require_no_wait(queue: &Queue, pace: Pace) -> Result<()> {
    let device = queue.device();
    if pace == Pace::Waits || device.properties().waiting_copies != WaitingCopies::All {
        return Ok(());
    }
    let message = "copies on this device wait for its queue, which a polled copy may not do; use a copy that waits";
    Err(Error::new(ErrorKind::Unsupported, message).on_device(device.id()))
}

/// Whether the host can read all buffers of an array in place.
fn maps_in_place(array: &Array, device: &Device) -> bool {
    let tree = array.tree();
    tree.nodes().zip(tree.schema.nodes()).all(|(node, field)| {
        // The sizes behind the buffers of views are host memory.
        let sizes = usize::from(field.layout.is_variadic());
        let count = (node.n_buffers as usize).saturating_sub(sizes);
        let bases = (0..count).map(|index| node.buffer(index)).filter(|base| !base.is_null());
        bases
            .map(|base| Raw::from_ptr(base.cast_mut()))
            .all(|base| device.driver().maps_in_place(base))
    })
}

fn wait(array: &Array) -> Result<()> {
    array.wait().map_err(|error| error.at_step(step::WAIT_FOR_SOURCE))
}
