//! [`Piece`]: the bytes of a buffer of a body, and how they are written.
//!
//! A piece is empty, owns its bytes, names bytes of an array's buffer, or says how the numbers of
//! one or two buffers are changed while they are written. Bytes of the host are written from where
//! they lie. Bytes of a device pass through two windows of host memory:
//!
//! 1. [`Cursor::window`] goes along the pieces until a window is full, and starts one read of all
//!    parts of it.
//! 2. While the device fills that window, the bytes of the one before are changed and written.
//!
//! This is fast because a window has parts of many buffers, and the device works while the host
//! writes. What must stay true: a window ends between two elements of what is written. Where bits
//! are shifted, an element is a byte, and the window also has the byte behind it, whose low bits
//! are needed.

use std::io::Write;
use std::ops::Range;

use arrow_device::copy::{ReadableBuffer, Reading};
use arrow_device::{Error, ErrorKind, Result};

use crate::encode::Wide;
use crate::options::Compression;
use crate::problem::{gone, not_written, refused};
use crate::source::{Place, Source, Staged};

/// The bytes of a buffer.
pub(crate) enum Piece {
    Nothing,
    Own(Vec<u8>),
    /// A range of the bytes of an array's buffer.
    Of {
        source: Source,
        range: Range<u64>,
    },
    /// Elements of a buffer, or of two, which change because the array is a slice.
    Changed(Box<Changed>),
}

/// Numbers or bytes that are made one by one, each from an element of one buffer or of two.
pub(crate) struct Changed {
    pub(crate) first: Input,
    pub(crate) second: Option<Input>,
    pub(crate) count: u64,
    pub(crate) change: Change,
}

/// A buffer whose elements are read for a change.
pub(crate) struct Input {
    pub(crate) source: Source,
    /// The byte of the buffer at which the first element begins.
    pub(crate) start: u64,
    /// How many bytes of the buffer are read for one number or byte.
    pub(crate) width: u64,
}

/// How a buffer is changed.
pub(crate) enum Change {
    /// Bits move down by `by`, so that the array's first bit becomes the lowest of its byte. `end`
    /// is where the bytes end.
    Shift { by: u32, end: u64 },
    /// Offsets become smaller by `first`, the first one.
    Offsets { wide: Wide, first: i64 },
    /// The starts of lists become smaller by `low`, the number of elements that are cut off the
    /// child. An empty list may begin anywhere, also in what is cut off, and then begins at 0.
    Starts { wide: Wide, low: i64 },
    /// Places in the children of a dense union become smaller by what is cut off the child. `lows`
    /// is indexed by type id.
    Places { lows: Vec<i64> },
    /// Run ends become smaller by `offset`, and at most `len`.
    Runs { wide: Wide, offset: i64, len: i64 },
}

/// How many numbers or bytes are changed at a time.
const STEP: usize = 8 << 10;

impl Piece {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Own(bytes) => bytes.len() as u64,
            Self::Of { range, .. } => range.end - range.start,
            Self::Changed(changed) => changed.count * changed.change.width(),
        }
    }

    /// Returns the bytes, compressed. The whole buffer is in host memory meanwhile, also where a
    /// device has it.
    pub(crate) fn packed(&self, compression: Compression) -> Result<Vec<u8>> {
        match self {
            Self::Own(bytes) => compression.pack(bytes),
            Self::Of { source, range } if matches!(source.place(), Place::Host { .. }) => {
                source.show(range.clone(), |bytes| compression.pack(bytes))?
            }
            _ => {
                let mut bytes = Vec::new();
                let len = self.len();
                let room = usize::try_from(len).ok();
                let there = room.filter(|room| bytes.try_reserve_exact(*room).is_ok());
                there.ok_or_else(|| {
                    let message = format!("no memory for a buffer of {len} bytes");
                    refused(ErrorKind::OutOfMemory, message)
                })?;
                write_pieces(std::slice::from_ref(self), 1, &mut bytes)?;
                compression.pack(&bytes)
            }
        }
    }

    /// Returns the reader of the device that has the bytes, `None` where the host has them.
    fn staged(&self) -> Option<&Staged> {
        let source = match self {
            Self::Nothing | Self::Own(_) => return None,
            Self::Of { source, .. } => source,
            Self::Changed(changed) => &changed.first.source,
        };
        match source.place() {
            Place::Host { .. } => None,
            Place::Device { reader, .. } => Some(reader),
        }
    }

    /// Returns how many elements are written one by one, and how many bytes are read for each.
    fn steps(&self) -> (u64, u64) {
        match self {
            Self::Nothing | Self::Own(_) | Self::Of { .. } => (self.len(), 1),
            Self::Changed(changed) => {
                let second = changed.second.as_ref().map_or(0, |second| second.width);
                (changed.count, changed.first.width + second)
            }
        }
    }

    /// Returns the parts of a device's buffers that are read for the elements of `which`.
    fn parts(&self, which: &Range<u64>) -> Vec<(&ReadableBuffer, Range<u64>)> {
        let part = |source, range| match Source::place(source) {
            Place::Device { buffer, .. } => Some((buffer, range)),
            Place::Host { .. } => None,
        };
        match self {
            Self::Nothing | Self::Own(_) => Vec::new(),
            Self::Of { source, range } => {
                let range = range.start + which.start..range.start + which.end;
                part(source, range).into_iter().collect()
            }
            Self::Changed(changed) => {
                let inputs = std::iter::once(&changed.first).chain(&changed.second);
                inputs
                    .filter_map(|input| part(&input.source, changed.range(input, which)))
                    .collect()
            }
        }
    }
}

impl Changed {
    /// Returns the bytes of an input that are read for the elements of `which`.
    fn range(&self, input: &Input, which: &Range<u64>) -> Range<u64> {
        let place = |number: u64| input.start + number * input.width;
        let end = match self.change {
            // The last bits of the last element are in the byte behind it.
            Change::Shift { end, .. } => end.min(place(which.end) + 1),
            _ => place(which.end),
        };
        place(which.start)..end
    }

    /// Writes `count` elements that are made from these inputs.
    fn write(
        &self,
        count: usize,
        first: &[u8],
        second: &[u8],
        room: &mut Vec<u8>,
        to: &mut impl Write,
    ) -> Result<()> {
        let rest = |bytes: &'_ [u8], done: usize, width: u64| {
            done.checked_mul(width as usize).filter(|start| *start <= bytes.len())
        };
        let mut done = 0;
        while done < count {
            let step = STEP.min(count - done);
            let width = self.second.as_ref().map_or(0, |second| second.width);
            let starts = rest(first, done, self.first.width).zip(rest(second, done, width));
            let (one, other) = starts.ok_or_else(gone)?;
            room.clear();
            let first = first.get(one..).unwrap_or_default();
            let second = second.get(other..).unwrap_or_default();
            self.change.apply(step, first, second, room).ok_or_else(gone)?;
            to.write_all(room).map_err(not_written)?;
            done += step;
        }
        Ok(())
    }
}

impl Change {
    /// Returns how many bytes a written element has.
    fn width(&self) -> u64 {
        match self {
            Self::Shift { .. } => 1,
            Self::Offsets { wide, .. } | Self::Starts { wide, .. } | Self::Runs { wide, .. } => {
                wide.bytes()
            }
            Self::Places { .. } => 4,
        }
    }

    /// Appends `count` elements. `None` where an input is too short.
    fn apply(&self, count: usize, first: &[u8], second: &[u8], to: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Shift { by, .. } => {
                let bytes = first.get(..count)?;
                let following = first.iter().skip(1).chain(std::iter::once(&0));
                let moved = bytes.iter().zip(following);
                to.extend(moved.map(|(low, high)| (low >> by) | (high << (8 - by))));
            }
            Self::Offsets { wide, first: begin } => {
                for index in 0..count {
                    // Offsets in between may be nonsense. They stay nonsense, and fit the width.
                    wide.write(wide.read(first, index)?.wrapping_sub(*begin), to);
                }
            }
            Self::Starts { wide, low } => {
                for index in 0..count {
                    let (start, size) = (wide.read(first, index)?, wide.read(second, index)?);
                    wide.write(if size > 0 { start.wrapping_sub(*low) } else { 0 }, to);
                }
            }
            Self::Places { lows } => {
                for index in 0..count {
                    let id = usize::from(*first.get(index)?);
                    let at = Wide::Four.read(second, index)?;
                    Wide::Four.write(at.wrapping_sub(*lows.get(id)?), to);
                }
            }
            Self::Runs { wide, offset, len } => {
                for index in 0..count {
                    let end = wide.read(first, index)?;
                    wide.write(end.saturating_sub(*offset).min(*len), to);
                }
            }
        }
        Some(())
    }
}

/// The part of a body that is read from a device with one request, and the host's pieces in
/// between.
struct Window {
    stretches: Vec<Stretch>,
    reading: Option<Reading>,
}

/// The part of a piece that lies in one window.
struct Stretch {
    piece: usize,
    which: Range<u64>,
    /// How many bytes the window has for the first input and for the second one.
    read: [u64; 2],
    /// Whether the piece ends with this part.
    is_last: bool,
}

/// Where the next window begins.
#[derive(Default)]
struct Cursor {
    piece: usize,
    done: u64,
}

impl Cursor {
    /// Starts to read the next window and returns it, `None` at the end.
    fn window(&mut self, pieces: &[Piece]) -> Result<Option<Window>> {
        let (mut stretches, mut parts, mut used) = (Vec::new(), Vec::new(), 0_u64);
        let mut reads: Option<&Staged> = None;
        while let Some(piece) = pieces.get(self.piece) {
            let (count, width) = piece.steps();
            let mut which = self.done..count;
            if let Some(staged) = piece.staged() {
                // Keeps room for one byte more, which a shift of bits needs.
                let room = staged.window.saturating_sub(used + 1) / width;
                if room < count - self.done {
                    let room = if room > 64 { room - room % 64 } else { room };
                    which.end = self.done + if used == 0 { room.max(1) } else { room };
                }
                if which.is_empty() && count > 0 {
                    break;
                }
                reads = Some(staged);
            }
            let needed = piece.parts(&which);
            let mut read = [0; 2];
            for ((_, range), read) in needed.iter().zip(&mut read) {
                *read = range.end - range.start;
                used += *read;
            }
            parts.extend(needed);
            let (end, is_last) = (which.end, which.end == count);
            stretches.push(Stretch { piece: self.piece, which, read, is_last });
            if !is_last {
                self.done = end;
                break;
            }
            (self.piece, self.done) = (self.piece + 1, 0);
        }
        if stretches.is_empty() {
            return Ok(None);
        }
        let reading = reads.filter(|_| used > 0);
        let reading = reading.map(|staged| staged.reader.read(&parts)).transpose()?;
        Ok(Some(Window { stretches, reading }))
    }
}

/// Writes pieces one behind the other, each padded to a multiple of the alignment.
pub(crate) fn write_pieces(pieces: &[Piece], alignment: u64, to: &mut impl Write) -> Result<()> {
    let mut room = Vec::new();
    if pieces.iter().all(|piece| piece.staged().is_none()) {
        return pieces.iter().try_for_each(|piece| {
            let which = 0..piece.steps().0;
            write_stretch(piece, &which, (&[], &[]), &mut room, to)?;
            write_padding(piece, alignment, to)
        });
    }
    let mut cursor = Cursor::default();
    let mut next = cursor.window(pieces)?;
    while let Some(Window { stretches, reading }) = next {
        next = cursor.window(pieces)?;
        let bytes = reading.map(Reading::wait).transpose()?;
        let mut bytes: &[u8] = bytes.as_deref().unwrap_or_default();
        for stretch in stretches {
            let Some(piece) = pieces.get(stretch.piece) else { return Err(gone()) };
            let mut take = |len: u64| {
                let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
                let (own, rest) = split.ok_or_else(gone)?;
                bytes = rest;
                Ok::<_, Error>(own)
            };
            let (first, second) = (take(stretch.read[0])?, take(stretch.read[1])?);
            write_stretch(piece, &stretch.which, (first, second), &mut room, to)?;
            if stretch.is_last {
                write_padding(piece, alignment, to)?;
            }
        }
    }
    Ok(())
}

fn write_padding(piece: &Piece, alignment: u64, to: &mut impl Write) -> Result<()> {
    let len = piece.len();
    write_zeros(to, len.next_multiple_of(alignment) - len)
}

fn write_stretch(
    piece: &Piece,
    which: &Range<u64>,
    (first, second): (&[u8], &[u8]),
    room: &mut Vec<u8>,
    to: &mut impl Write,
) -> Result<()> {
    let count = usize::try_from(which.end - which.start).map_err(|_| gone())?;
    let is_read = piece.staged().is_some();
    match piece {
        Piece::Nothing => Ok(()),
        Piece::Own(bytes) => to.write_all(bytes).map_err(not_written),
        Piece::Of { .. } if is_read => to.write_all(first).map_err(not_written),
        Piece::Of { source, range } => {
            source.show(range.clone(), |bytes| to.write_all(bytes))?.map_err(not_written)
        }
        Piece::Changed(changed) if is_read => changed.write(count, first, second, room, to),
        Piece::Changed(changed) => {
            let range = changed.range(&changed.first, which);
            changed.first.source.show(range, |first| match &changed.second {
                None => changed.write(count, first, &[], room, to),
                Some(second) => {
                    let range = changed.range(second, which);
                    let write = |second: &[u8]| changed.write(count, first, second, room, to);
                    second.source.show(range, write)?
                }
            })?
        }
    }
}

/// Writes at most 64 bytes of padding.
pub(crate) fn write_zeros(to: &mut impl Write, count: u64) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let zeros = [0; 64];
    let count = usize::try_from(count).unwrap_or(0);
    to.write_all(zeros.get(..count).unwrap_or(&zeros)).map_err(not_written)
}
