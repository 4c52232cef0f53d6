//! Lists of copies, as CUDA and HIP take them: columns of addresses and lengths, and attributes for
//! stretches of them.

use std::ffi::{c_int, c_uint};

use arrow_device_sim::hardware::{Reading, Stretch};

use crate::call::{Then, entries};
use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::memory::Pageable;

/// The attributes of copies: the order in which the source is read, hints of where the ends are,
/// flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    source_order: c_int,
    hints: [c_int; 4],
    flags: c_uint,
}

/// Arrays of a batch, as C gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) to: *const usize,
    pub(crate) from: *const usize,
    pub(crate) len: *const usize,
    pub(crate) count: usize,
    pub(crate) attributes: *const Attributes,
    /// The first copy that each entry of `attributes` is for.
    pub(crate) attribute_starts: *const usize,
    pub(crate) attribute_count: usize,
}

impl Attributes {
    fn reading(self) -> Answer<Reading> {
        match self.source_order {
            1 => Ok(Reading::InOrder),
            2 => Ok(Reading::AtOnce),
            3 => Ok(Reading::AnyTime),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

impl Batch {
    /// No array may be null; each copy needs attributes, so the first are for copy 0 and the others
    /// follow in order. What an empty copy would be no manual says: it is refused.
    ///
    /// # Safety
    /// The arrays have as many entries as the counts say.
    unsafe fn stretches(&self) -> Answer<Vec<Stretch>> {
        let columns = [self.to, self.from, self.len];
        let has_null = columns.iter().any(|column| column.is_null())
            || self.attributes.is_null()
            || self.attribute_starts.is_null();
        let is_empty = self.count == 0 || self.attribute_count == 0;
        if has_null || is_empty || self.attribute_count > self.count {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the arrays have as many entries as the counts say, as the caller promises.
        let starts = unsafe { entries(self.attribute_starts, self.attribute_count) };
        // SAFETY: the arrays have as many entries as the counts say, as the caller promises.
        let attributes = unsafe { entries(self.attributes, self.attribute_count) };
        let is_ordered = starts.first() == Some(&0) && starts.is_sorted_by(|one, next| one < next);
        if !is_ordered || starts.iter().any(|start| *start >= self.count) {
            return Err(Code::INVALID_VALUE);
        }
        let [to, from, len] = columns.map(|column| {
            // SAFETY: the arrays have as many entries as the counts say, as the caller promises.
            unsafe { entries(column, self.count) }
        });
        let rows = to.into_iter().zip(from).zip(len).enumerate();
        rows.map(|(number, ((to, from), len))| {
            let entry = starts.iter().rposition(|start| *start <= number);
            let attributes = entry.and_then(|entry| attributes.get(entry));
            let reading = attributes.ok_or(Code::INVALID_VALUE)?.reading()?;
            if len == 0 {
                return Err(Code::INVALID_VALUE);
            }
            Ok(Stretch { from, to, len: len as u64, reading })
        })
        .collect()
    }

    /// # Safety
    /// The arrays have as many entries as the counts say, and what is no memory of the driver may
    /// be read or written, as the manual says of copies.
    pub(crate) unsafe fn submit(
        &self,
        machine: &mut Machine,
        device: usize,
        stream: usize,
        pageable: Pageable,
    ) -> Answer<Then> {
        // SAFETY: the arrays have as many entries as the counts say, and what is no memory of the
        // driver may be read or written, as the manual says of copies, as the caller promises.
        let stretches = unsafe { self.stretches() }?;
        // SAFETY: the arrays have as many entries as the counts say, and what is no memory of the
        // driver may be read or written, as the manual says of copies, as the caller promises.
        unsafe { machine.copies(device, stream, &stretches, pageable) }
    }
}
