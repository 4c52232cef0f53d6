//! What a plan says of itself.

use std::fmt;

use super::plan::Plan;
use super::route::{Hop, Way};
use crate::NodePath;

/// What was cut off at a node, or not, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Not all elements that its buffers have are live.
    Window {
        /// So many are.
        elements: i64,
        /// Of so many.
        of: i64,
        /// So many before the first one travel too, for the sake of a bitmap.
        kept: i64,
    },
    /// The bitmap stays behind: it says of no element that it is null.
    NoNulls,
    /// What is before the first offset stays behind, and the offsets begin at 0.
    Rebased {
        /// What becomes 0.
        first: i64,
        /// So many bytes at least do not travel.
        bytes: u64,
    },
    /// As [`Rebased`](Cut::Rebased), on a way that does not come by the host: the offsets go there and back.
    Detour {
        /// What becomes 0.
        first: i64,
        /// So many bytes at least do not travel.
        bytes: u64,
        /// So many do in place of them.
        detour: u64,
    },
    /// What is before the first offset travels although nothing refers to it: that is less than a detour of the offsets.
    Untrimmed {
        /// The first offset.
        first: i64,
        /// So many bytes at least travel for nothing.
        bytes: u64,
        /// The detour would have moved so many.
        detour: u64,
    },
    /// Its children are cut to what its indices refer to.
    Narrowed,
    /// Its children travel whole, for this reason.
    Whole(&'static str),
}

/// A [`Cut`] and the node that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    node: u32,
    cut: Cut,
}

impl Note {
    pub(super) fn new(node: u32, cut: Cut) -> Self {
        Self { node, cut }
    }

    /// What was cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The node that it was cut at.
    pub fn place(&self, plan: &Plan) -> NodePath {
        plan.place(self.node)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { elements, of, kept: 0 } => write!(f, "{elements} elements of {of}"),
            Self::Window { elements, of, kept } => {
                write!(f, "{elements} elements of {of}, and {kept} before them for the bitmap")
            }
            Self::NoNulls => f.write_str("no bitmap, because nothing is null"),
            Self::Rebased { first, bytes } => {
                write!(
                    f,
                    "offsets begin at 0 instead of {first}, which saves {}",
                    ByteCount(*bytes)
                )
            }
            Self::Detour { first, bytes, detour } => write!(
                f,
                "offsets go to the host and back ({}) to begin at 0 instead of {first}, which saves {}",
                ByteCount(*detour),
                ByteCount(*bytes)
            ),
            Self::Untrimmed { first, bytes, detour } => write!(
                f,
                "what is before offset {first} travels too ({}): offsets that begin at 0 would have to go to the host and \
                 back ({})",
                ByteCount(*bytes),
                ByteCount(*detour)
            ),
            Self::Narrowed => f.write_str("children cut to what the indices refer to"),
            Self::Whole(why) => write!(f, "children travel whole: {why}"),
        }
    }
}

/// A number of bytes, for people.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(unit, _)| bytes >= 10 * unit) {
            Some((unit, name)) => write!(f, "{} {name}", bytes.div_ceil(*unit)),
            None => write!(f, "{}", Count(bytes, "byte")),
        }
    }
}

/// A number of things.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared, nothing is copied",
            Self::HostCopy => "copied by the host",
            Self::FromHost => "read by the device from the host",
            Self::ToHost => "written by the device to the host",
            Self::Within => "copied by the device",
            Self::FromPeer => "read by the device from its peer",
        })
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, from, to, bytes, regions, submissions } = *self;
        write!(f, "{from} -> {to}: {way}")?;
        if way == Way::Shared {
            return Ok(());
        }
        write!(f, ": {} in {}", ByteCount(bytes), Count(regions, "region"))?;
        match submissions {
            0 => Ok(()),
            _ => write!(f, ", {}", Count(submissions, "submission")),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "copy of {} elements of {}", self.array().len(), self.array().data_type())?;
        for hop in self.hops() {
            writeln!(f, "  {hop}")?;
        }
        let learned = self.learned();
        if learned.reads > 0 {
            let (reads, waits) = (Count(learned.reads, "length"), Count(learned.waits, "wait"));
            writeln!(f, "  learned {reads} in {}, with {waits}", ByteCount(learned.bytes))?;
        }
        if self.allocations() > 0 {
            let (count, total) =
                (Count(self.allocations(), "allocation"), ByteCount(self.allocated()));
            writeln!(f, "  {count} of {total} together, aligned to {}", self.alignment())?;
        }
        if self.shared_bytes() > 0 {
            writeln!(f, "  {} occur more than once and move once", ByteCount(self.shared_bytes()))?;
        }
        // A batch of thousand columns has a thousand of the same.
        for note in self.notes().iter().take(SHOWN) {
            writeln!(f, "  {}: {}", note.place(self), note.cut())?;
        }
        if let Some(more) = self.notes().len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(f, "  and {} like these", Count(more as u64, "note"))?;
        }
        Ok(())
    }
}

/// So many notes are printed.
const SHOWN: usize = 20;
