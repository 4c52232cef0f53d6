//! How many bytes arrays take.

use arrow_device::copy::Options;
use arrow_device::{Array, DeviceType, Extent, Queue, Result};

/// How many bytes the elements take, as far as that is known without asking a device; `None` where
/// it is not.
pub(crate) fn nbytes(array: &Array) -> Result<Option<u64>> {
    if array.device().device_type == DeviceType::CPU {
        let options = Options::new().always(true);
        return array.plan_copy(&Queue::host(), &options).map(|plan| Some(plan.bytes()));
    }
    buffer_bytes(array)
}

/// The length of all buffers; `None` where one is not known.
fn buffer_bytes(array: &Array) -> Result<Option<u64>> {
    let mut all = 0_u64;
    for index in 0..array.buffer_count() {
        match array.extent(index) {
            Extent::Exact(len) | Extent::AtLeast(len) => all = all.saturating_add(len),
            Extent::Unknown => return Ok(None),
        }
    }
    let children = (0..array.child_count()).map(|index| array.child(index));
    for below in children.chain(array.dictionary().map(Ok)) {
        let Some(len) = buffer_bytes(&below?)? else { return Ok(None) };
        all = all.saturating_add(len);
    }
    Ok(Some(all))
}
