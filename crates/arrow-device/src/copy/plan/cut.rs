//! What a plan leaves behind at each node, and why.

use std::fmt;

/// What was cut off at a node or not, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Some elements of the node's buffers are not live, and stay behind.
    Window {
        /// How many elements are live.
        elements: i64,
        /// How many elements the buffers have.
        of: i64,
        /// How many elements before the first live one travel too, for the sake of a bitmap, or of
        /// a device that copies [whole units](crate::driver::Properties::copy_unit).
        kept: i64,
    },
    /// The bitmap stays behind: no element is null.
    NoNulls,
    /// What is before the first offset stays behind, and the offsets begin at 0.
    Rebased {
        /// The offset that becomes 0.
        first: i64,
        /// The least number of bytes that stay behind.
        bytes: u64,
    },
    /// As [`Rebased`](Cut::Rebased), where the data does not pass through host memory: only the
    /// offsets go to the host and back.
    Detour {
        /// The offset that becomes 0.
        first: i64,
        /// The least number of bytes that stay behind.
        bytes: u64,
        /// How many bytes make the detour by the host instead.
        detour: u64,
    },
    /// The bytes before the first offset travel although nothing refers to them, because a detour
    /// of the offsets by the host would move more.
    Untrimmed {
        /// The first offset.
        first: i64,
        /// The least number of bytes that travel in vain.
        bytes: u64,
        /// How many bytes the detour would have moved.
        detour: u64,
    },
    /// The children are cut to the elements that the node's indices refer to.
    Narrowed,
    /// The children travel whole, for this reason.
    Whole(&'static str),
}

/// A [`Cut`] and the node where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    node: u32,
    cut: Cut,
}

impl Note {
    pub(in crate::copy) fn new(node: u32, cut: Cut) -> Self {
        Self { node, cut }
    }

    /// What was cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    pub(in crate::copy) fn node(&self) -> u32 {
        self.node
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { elements, of, kept: 0 } => write!(f, "{elements} elements of {of}"),
            Self::Window { elements, of, kept } => {
                write!(
                    f,
                    "{elements} elements of {of}, and {kept} before them for a bitmap or whole units"
                )
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

/// A number of bytes that prints with a unit.
pub(in crate::copy) struct ByteCount(pub(crate) u64);

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

/// A number of things that prints with their name.
pub(in crate::copy) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}
