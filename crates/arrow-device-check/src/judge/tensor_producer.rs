//! Judges producers of tensors in DLPack's C form.

use std::cell::Cell;
use std::ptr;

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};

use super::{RUNS, Scenario, growth};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a tensor on the host", place: Where::Host, run: judge },
    Scenario { name: "a tensor on a device", place: Where::Device, run: judge },
    Scenario { name: "two tensors at a time", place: Where::Host, run: two },
    Scenario { name: "a tensor, many times", place: Where::Anywhere, run: many_times },
];

/// The flags that DLPack 1.3 has.
const KNOWN_FLAGS: u64 = 7;

/// A tensor in one of the two forms.
enum Made {
    Versioned(*mut DLManagedTensorVersioned),
    Legacy(*mut DLManagedTensor),
}

fn make(peer: &Peer, bench: &Bench) -> Result<Made, i32> {
    match &peer.entry {
        Entry::ProduceTensor(produce) => {
            let mut out = ptr::null_mut();
            let code = produce(bench, &raw mut out);
            if code == 0 && !out.is_null() { Ok(Made::Versioned(out)) } else { Err(code) }
        }
        Entry::ProduceLegacy(produce) => {
            let mut out = ptr::null_mut();
            let code = produce(bench, &raw mut out);
            if code == 0 && !out.is_null() { Ok(Made::Legacy(out)) } else { Err(code) }
        }
        _ => Err(libc::ENOSYS),
    }
}

impl Made {
    fn tensor(&self) -> &DLTensor {
        match self {
            // SAFETY: the pointer came from the peer as a live tensor, and is not deleted before
            // this is dropped.
            Self::Versioned(tensor) => unsafe { &(**tensor).dl_tensor },
            // SAFETY: the pointer came from the peer as a live tensor, and is not deleted before
            // this is dropped.
            Self::Legacy(tensor) => unsafe { &(**tensor).dl_tensor },
        }
    }

    fn flags(&self) -> u64 {
        match self {
            // SAFETY: the pointer came from the peer as a live tensor, and is not deleted before
            // this is dropped.
            Self::Versioned(tensor) => unsafe { (**tensor).flags },
            Self::Legacy(_) => 0,
        }
    }

    fn is_read_only(&self) -> bool {
        self.flags() & 1 != 0
    }

    fn is_copied(&self) -> bool {
        self.flags() & 2 != 0
    }

    fn has_deleter(&self) -> bool {
        match self {
            // SAFETY: the pointer came from the peer as a live tensor, and is not deleted before
            // this is dropped.
            Self::Versioned(tensor) => unsafe { (**tensor).deleter }.is_some(),
            // SAFETY: the pointer came from the peer as a live tensor, and is not deleted before
            // this is dropped.
            Self::Legacy(tensor) => unsafe { (**tensor).deleter }.is_some(),
        }
    }

    fn delete(self) {
        match self {
            Self::Versioned(tensor) => {
                // SAFETY: a live tensor, which this is the last to use.
                let deleter = unsafe { (*tensor).deleter };
                // SAFETY: the tensor's own deleter, called once and with it.
                deleter.into_iter().for_each(|delete| unsafe { delete(tensor) });
            }
            Self::Legacy(tensor) => {
                // SAFETY: a live tensor, which this is the last to use.
                let deleter = unsafe { (*tensor).deleter };
                // SAFETY: the tensor's own deleter, called once and with it.
                deleter.into_iter().for_each(|delete| unsafe { delete(tensor) });
            }
        }
    }
}

fn judge(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now(RUNS, "producing a tensor");
    let made = match make(peer, bench) {
        Ok(made) => made,
        Err(code) => {
            return notes.fail(RUNS, format!("the entry point returned {code} and gave no tensor"));
        }
    };
    notes.now("DLP-11", "reading the version");
    if let Made::Versioned(tensor) = &made {
        // SAFETY: a live tensor; every version begins with this member.
        let version = unsafe { (**tensor).version };
        if !notes.check("DLP-11", version.major == 1, || {
            format!("the version is {}.{}", version.major, version.minor)
        }) {
            return made.delete();
        }
        // SAFETY: a live tensor of a major version that has flags.
        let flags = unsafe { (**tensor).flags };
        let tensor = made.tensor();
        notes.check(
            "DLP-7",
            version.minor < 2 || tensor.ndim < 1 || !tensor.strides.is_null(),
            || format!("the strides are null, which version 1.{} has no more", version.minor),
        );
        notes.check("DLP-12", version.minor > 3 || flags & !KNOWN_FLAGS == 0, || {
            format!("the flags are {flags:#x}, and version 1.{} has no such", version.minor)
        });
    }
    if !notes.check("DLP-10", made.has_deleter(), || {
        "there is no deleter, so that nobody can give it back".into()
    }) {
        return;
    }
    if shape(made.tensor(), notes)
        && dtype(made.tensor(), notes)
        && place(made.tensor(), bench, notes)
    {
        let tensor = made.tensor();
        if tensor.device.device_type.0 == 1 && mapped::look_at(&made, notes) {
            notes.now("DLP-10", "reading the data twice");
            let first = read(tensor);
            let noise = Noise::new();
            let again = read(tensor);
            drop(noise);
            notes.check("DLP-10", first == again, || "the data changes while it is held".into());
        }
    }
    notes.now("DLP-6", "deleting the tensor");
    made.delete();
    notes.pass("DLP-6");
}

/// Memory that was allocated and written to, so that freed memory has another owner now.
struct Noise(#[expect(dead_code, reason = "kept until it is dropped")] Vec<Vec<u8>>);

impl Noise {
    fn new() -> Self {
        Self((4..14).flat_map(|power| (0..32).map(move |_| vec![0x5a; 1 << power])).collect())
    }
}

/// Checks that a tensor which says that it is a copy shares its bytes with no other, and that the
/// data of one stays when another is made.
fn two(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now(RUNS, "producing two tensors");
    let (Ok(one), Ok(other)) = (make(peer, bench), make(peer, bench)) else {
        return notes.skip("DLP-12", "it gives no second tensor while the first is held");
    };
    let has_data = |made: &Made| made.has_deleter() && shape(made.tensor(), notes);
    if !has_data(&one) || !has_data(&other) {
        return notes.leave();
    }
    let bytes = [&one, &other].map(|made| mapped::bytes_of(made.tensor()));
    if let [Some(one_of), Some(other_of)] = bytes {
        let overlap = one_of.start.max(other_of.start) < one_of.end.min(other_of.end);
        let says_copied = one.is_copied() && other.is_copied();
        notes.check("DLP-12", !(overlap && says_copied), || {
            "two tensors say that each is a copy of its own, and they share memory".into()
        });
    }
    notes.now("DLP-6", "deleting two tensors");
    one.delete();
    other.delete();
}

fn dims(tensor: &DLTensor, from: *const i64) -> Vec<i64> {
    let slot = |index| from.wrapping_add(index);
    // SAFETY: the callers pass the shape or the strides, of which there are `ndim`.
    (0..tensor.ndim.max(0) as usize).map(|index| unsafe { slot(index).read() }).collect()
}

fn shape(tensor: &DLTensor, notes: &Notes) -> bool {
    let ndim = tensor.ndim;
    notes.now("DLP-7", "reading the shape");
    if !notes.check("DLP-7", (0..=1024).contains(&ndim), || format!("it has {ndim} dimensions")) {
        return false;
    }
    if !notes.check("DLP-7", ndim == 0 || !tensor.shape.is_null(), || "the shape is null".into()) {
        return false;
    }
    let shape = dims(tensor, tensor.shape);
    if !notes.check("DLP-7", shape.iter().all(|length| *length >= 0), || {
        format!("the shape is {shape:?}")
    }) {
        return false;
    }
    let is_empty = shape.contains(&0);
    let elements = shape.iter().try_fold(1_i64, |all, length| all.checked_mul(*length));
    let width = i64::from(tensor.dtype.bits) * i64::from(tensor.dtype.lanes) / 8;
    let fits = is_empty
        || elements
            .and_then(|elements| elements.checked_mul(width.max(1)))
            .is_some_and(|bytes| bytes < 1 << 47);
    let strides = if tensor.strides.is_null() { Vec::new() } else { dims(tensor, tensor.strides) };
    if !tensor.strides.is_null() || elements.is_none() {
        let span = shape.iter().zip(&strides).try_fold(0_i64, |span, (length, stride)| {
            stride
                .unsigned_abs()
                .checked_mul((*length - 1).max(0).unsigned_abs())
                .and_then(|far| i64::try_from(far).ok())
                .and_then(|far| span.checked_add(far))
        });
        let spans = span
            .and_then(|span| span.checked_mul(width.max(1)))
            .is_some_and(|bytes| bytes < 1 << 47);
        if !notes.check("DLP-7", is_empty || (spans && elements.is_some()), || {
            format!("shape {shape:?} and strides {strides:?} lead out of all memory")
        }) {
            return false;
        }
    } else if !notes.check("DLP-7", fits, || format!("shape {shape:?} is more than all memory")) {
        return false;
    }
    if !notes.check("DLP-7", is_empty || !tensor.data.is_null(), || {
        "there are elements and no data".into()
    }) {
        return false;
    }
    notes.check("DLP-7", !is_empty || tensor.data.is_null(), || {
        "there are no elements, and `data` is not null".into()
    });
    notes.check("DLP-7", tensor.byte_offset < 1 << 47, || {
        format!("the offset of {} bytes leads out of all memory", tensor.byte_offset)
    })
}

fn dtype(tensor: &DLTensor, notes: &Notes) -> bool {
    let (code, bits, lanes) = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
    let widths: &[u8] = match code {
        0 | 1 => &[1, 2, 4, 8, 16, 32, 64, 128],
        2 => &[16, 32, 64, 80, 96, 128],
        3 => &[32, 64],
        4 => &[16],
        5 => &[32, 64, 128],
        6 => &[1, 8],
        7..=14 => &[8],
        15 | 16 => &[6],
        17 => &[4],
        _ => &[],
    };
    notes.check("DLP-4", widths.contains(&bits) && lanes > 0, || {
        format!("there is no type with code {code}, {bits} bits and {lanes} lanes")
    })
}

fn place(tensor: &DLTensor, bench: &Bench, notes: &Notes) -> bool {
    let (found, number) = (tensor.device.device_type.0, tensor.device.device_id);
    let is_known = matches!(found, 1..=4 | 7..=18);
    let as_expected = bench.expected().is_none_or(|id| id.device_type.0 == found || found == 1);
    notes.check("DLP-9", is_known && number >= 0 && as_expected, || {
        format!("it says that it lies on {found}:{number}")
    })
}

/// The most elements of a tensor that is read.
fn most_elements() -> i64 {
    if crate::under::is_on() { 1 << 24 } else { 1 << 20 }
}

/// Returns all elements in row-major order, if there are not too many.
fn read(tensor: &DLTensor) -> Vec<u8> {
    let shape = dims(tensor, tensor.shape);
    let width = usize::from(tensor.dtype.bits).div_ceil(8) * usize::from(tensor.dtype.lanes);
    let compact = || {
        let mut strides: Vec<i64> = shape
            .iter()
            .rev()
            .scan(1_i64, |next, length| {
                let stride = *next;
                *next = next.saturating_mul((*length).max(1));
                Some(stride)
            })
            .collect();
        strides.reverse();
        strides
    };
    let strides = if tensor.strides.is_null() { compact() } else { dims(tensor, tensor.strides) };
    let elements: i64 = shape.iter().product();
    if elements > most_elements() {
        return Vec::new();
    }
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let places = shape.iter().zip(&strides).fold(vec![0_i64], |places, (length, stride)| {
        places
            .iter()
            .flat_map(|place| (0..*length).map(move |index| place + index * stride))
            .collect()
    });
    let element = |place: i64| {
        let at = first.wrapping_offset(place as isize * width as isize);
        // SAFETY: the bytes of an element that shape and strides say is there; where it is not,
        // this process ends, which is the finding.
        (0..width).map(move |byte| unsafe { at.wrapping_add(byte).read() })
    };
    places.into_iter().flat_map(element).collect()
}

fn many_times(peer: &Peer, bench: &Bench, notes: &Notes) {
    if !peer.can_count {
        return notes.skip("DLP-6", "its memory is not counted");
    }
    notes.now(RUNS, "producing a tensor many times");
    let can_be_deleted = Cell::new(true);
    let kept = growth::of(|| {
        if let Ok(made) = make(peer, bench) {
            can_be_deleted.set(made.has_deleter());
            made.delete();
        }
    });
    if !can_be_deleted.get() {
        return notes.skip("DLP-6", "there is no deleter to call");
    }
    match kept {
        None => notes.skip("DLP-6", "the C library does not tell how much memory is in use"),
        Some(kept) => {
            notes.check("DLP-6", kept == 0, || {
                format!("{kept} bytes more are in use after each tensor")
            });
        }
    }
}

/// The system's record of the memory of a tensor.
mod mapped {
    use std::ops::Range;

    use arrow_device::abi::dlpack::DLTensor;

    use super::{Made, dims};
    use crate::notes::Notes;

    /// Returns the addresses from the first to the last element, `None` without elements.
    pub(super) fn bytes_of(tensor: &DLTensor) -> Option<Range<usize>> {
        let shape = dims(tensor, tensor.shape);
        if shape.contains(&0) {
            return None;
        }
        let bits = i64::from(tensor.dtype.bits) * i64::from(tensor.dtype.lanes);
        let (mut low, mut high) = (0_i64, 0_i64);
        if tensor.strides.is_null() {
            high = shape.iter().product::<i64>() - 1;
        } else {
            for (length, stride) in shape.iter().zip(dims(tensor, tensor.strides)) {
                let far = stride.checked_mul(length - 1)?;
                low = low.checked_add(far.min(0))?;
                high = high.checked_add(far.max(0))?;
            }
        }
        let at = |element: i64| element.checked_mul(bits).map(|bit| bit.div_euclid(8) as isize);
        let first = tensor.data.addr().checked_add(usize::try_from(tensor.byte_offset).ok()?)?;
        let start = first.checked_add_signed(at(low)?)?;
        Some(start..first.checked_add_signed(at(high.checked_add(1)?)?)?)
    }

    /// Whether all bytes can be read. Also checks that a tensor in memory that cannot be written
    /// says so.
    pub(super) fn look_at(made: &Made, notes: &Notes) -> bool {
        let Some(bytes) = bytes_of(made.tensor()) else { return true };
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return true };
        let (mut at, mut is_writable) = (bytes.start, true);
        for line in maps.lines() {
            let Some((range, writable)) = parse(line) else { continue };
            if range.contains(&at) {
                is_writable &= writable;
                at = range.end;
            }
            if at >= bytes.end {
                break;
            }
        }
        let is_there = at >= bytes.end;
        let (start, end) = (bytes.start, bytes.end);
        notes.check("DLP-10", is_there, || {
            format!("its elements are the bytes from {start:#x} to {end:#x}, and at {at:#x} there is no memory")
        });
        let is_honest = !is_there || is_writable || made.is_read_only();
        if matches!(made, Made::Versioned(_)) {
            notes.check("DLP-12", is_honest, || {
                "the memory cannot be written to, and the read-only flag is not set".into()
            });
        }
        is_there
    }

    fn parse(line: &str) -> Option<(Range<usize>, bool)> {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let rights = words.next()?;
        rights.starts_with('r').then_some((number(start)?..number(end)?, rights.contains('w')))
    }
}
