//! The true sizes of all buffers of a tree, with one gathered read.
//!
//! What a C struct says of a column of text does not tell how many bytes it has: the last offset
//! does, which lies on the device. All last offsets of a tree are read at once. The sizes of the
//! data buffers of views are host memory, or memory of the device where its runtime tells so; those
//! are read one by one.

use std::ffi::c_int;

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{
    Array, BufferKind, Device, DeviceId, DeviceType, Error, ErrorKind, Extent, Layout, NodeView,
    Queue, Result,
};

use crate::array::ArdevArray;
use crate::call::{Out, get, null, run};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_buffer_sizes(
    array: *const ArdevArray,
    queue: *const ArdevQueue,
    sizes: *mut u64,
    capacity: usize,
    count: *mut usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 1 of the header.
        let count = unsafe { Out::new(count, 0, "count") }?;
        if capacity > 0 && sizes.is_null() {
            return Err(null("sizes"));
        }
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        // SAFETY: rule 2 of the header.
        let queue = match unsafe { queue.as_ref() } {
            Some(queue) => queue.0.clone(),
            None => any_queue(&array.0)?,
        };
        let found = sizes_of(&array.0, &queue)?;
        for (index, size) in found.iter().enumerate().take(capacity) {
            // SAFETY: the header asks for room for `capacity` sizes.
            unsafe { sizes.wrapping_add(index).write(*size) };
        }
        count.put(found.len())
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

fn any_queue(array: &Array) -> Result<Queue> {
    let id = array.device();
    if id.device_type == DeviceType::CPU {
        return Ok(Queue::host());
    }
    let device = Device::find(id).ok_or_else(|| {
        let message = "this device is not open in this process; open it, or name a queue";
        Error::new(ErrorKind::DeviceMissing, message).on_device(id)
    })?;
    device.open_queue()
}

/// A size, or which of the numbers that are read it is.
enum Size {
    Known(u64),
    Read(usize),
}

/// What is to be read of a tree.
#[derive(Default)]
struct Reads {
    sizes: Vec<Size>,
    /// Where each number is, and how many bytes it has.
    numbers: Vec<(Spot, u64)>,
}

fn sizes_of(array: &Array, queue: &Queue) -> Result<Vec<u64>> {
    let view = array.on(queue)?;
    let mut reads = Reads::default();
    reads.add(&view.root())?;
    let numbers = read(queue, array.device(), &reads.numbers)?;
    drop(view);
    let size = |size: &Size| match size {
        Size::Known(size) => Ok(*size),
        Size::Read(index) => {
            let last = numbers.get(*index).copied().unwrap_or(0);
            u64::try_from(last).map_err(|_| {
                let message = format!("a last offset is {last}");
                Error::new(ErrorKind::InvalidData, message).on_device(array.device())
            })
        }
    };
    reads.sizes.iter().map(size).collect()
}

impl Reads {
    /// Schemas are not deeper than 64 levels.
    fn add(&mut self, node: &NodeView<'_>) -> Result<()> {
        let layout = Layout::of(node.data_type());
        for index in 0..node.buffer_count() {
            let size = self.size(node, &layout, index)?;
            self.sizes.push(size);
        }
        let data_type = node.data_type();
        for index in 0..data_type.child_count() {
            self.add(&node.child(index)?)?;
        }
        if data_type.dictionary_values().is_some() {
            self.add(&node.dictionary()?)?;
        }
        Ok(())
    }

    fn size(&mut self, node: &NodeView<'_>, layout: &Layout, index: usize) -> Result<Size> {
        let place = node.buffer(index);
        if place.location().is_null() {
            return Ok(Size::Known(0));
        }
        if let Extent::Exact(size) | Extent::AtLeast(size) = place.extent() {
            return Ok(Size::Known(size));
        }
        match layout.buffers().get(index) {
            None => view_size(node, index).map(Size::Known),
            Some(_) if node.is_empty() => Ok(Size::Known(0)),
            Some(_) => Ok(self.last_offset(node, layout, index)),
        }
    }

    /// What the offsets before this buffer point into ends at the last of them.
    fn last_offset(&mut self, node: &NodeView<'_>, layout: &Layout, index: usize) -> Size {
        let offsets = index.saturating_sub(1);
        let width = match layout.buffers().get(offsets) {
            Some(BufferKind::Offsets64) => 8,
            _ => 4,
        };
        let end = u64::try_from(node.offset().saturating_add(node.len())).unwrap_or(0);
        let Spot { base, offset } = node.buffer(offsets).location().spot();
        // The offsets cover the elements, so this lies inside them.
        let spot = Spot { base, offset: offset + end * width };
        self.numbers.push((spot, width));
        Size::Read(self.numbers.len() - 1)
    }
}

/// The size of a data buffer of views, or of the sizes themselves, which are the last buffer.
fn view_size(node: &NodeView<'_>, index: usize) -> Result<u64> {
    let last = node.buffer_count().saturating_sub(1);
    if index == last {
        return Ok(8 * last.saturating_sub(2) as u64);
    }
    node.data_buffer_len(index)
}

/// Reads numbers of an array on this device with one list of copies and one wait.
fn read(queue: &Queue, array: DeviceId, numbers: &[(Spot, u64)]) -> Result<Vec<i64>> {
    let has_numbers = !numbers.is_empty();
    if has_numbers && queue.device().properties().copy_unit > 1 && queue.device().id() != array {
        let message = "the queue's device copies whole units, of which memory on another device may have none; name a queue of the array's device";
        return Err(Error::new(ErrorKind::NotReachable, message).on_device(array));
    }
    let mut landed = vec![[0_u8; 8]; numbers.len()];
    let base = Raw::from_ptr(landed.as_mut_ptr().cast());
    let region = |(index, (from, len)): (usize, &(Spot, u64))| {
        let to = Spot { base, offset: 8 * index as u64 };
        Region { from: *from, to, len: *len }
    };
    let regions: Vec<Region> = numbers.iter().enumerate().map(region).collect();
    // SAFETY: each source is an offset inside its buffer, which the caller's view keeps; each
    // number has 8 bytes to land in, which stay until the wait below is over, or the queue has
    // passed the copies.
    let submitted = unsafe { queue.copy(Route::ToHost, &regions) };
    if let Err(error) = submitted.and_then(|()| queue.synchronize()) {
        // Some of the copies may be on their way.
        queue.keep_until_done(landed);
        return Err(error);
    }
    let number = |(bytes, (_, len)): (&[u8; 8], &(Spot, u64))| match len {
        8 => i64::from_ne_bytes(*bytes),
        _ => bytes.first_chunk().map_or(0, |bytes| i64::from(i32::from_ne_bytes(*bytes))),
    };
    Ok(landed.iter().zip(numbers).map(number).collect())
}
