//! How a plan is printed.

use std::fmt;

use super::Plan;
use super::cut::{ByteCount, Count, Note};
use crate::NodePath;
use crate::copy::route::{Hop, Way};

impl Note {
    /// The node at which the data was cut.
    pub fn place(&self, plan: &Plan) -> NodePath {
        plan.place(self.node())
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
        // A batch of a thousand columns may have a thousand equal notes.
        for note in self.notes().iter().take(SHOWN) {
            writeln!(f, "  {}: {}", note.place(self), note.cut())?;
        }
        if let Some(more) = self.notes().len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(f, "  and {} like these", Count(more as u64, "note"))?;
        }
        Ok(())
    }
}

/// How many notes are printed.
const SHOWN: usize = 20;
