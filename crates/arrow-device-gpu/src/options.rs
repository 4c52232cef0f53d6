//! [`Options`]: how a device is opened.

use arrow_device::{Error, ErrorKind, Result};

use crate::{Kind, Vendor};

/// How a device is opened: with which memory, from where, and how copies are submitted.
///
/// Options that a program leaves open are read from an environment variable
/// (`ARROW_DEVICE_CUDA_OPTIONS`, `ARROW_DEVICE_HIP_OPTIONS`), which has pairs with spaces between
/// them: `pool=own keep=1048576`, `pool=current`, `pool=none`, `batched_copies=0`. An option that
/// the variable does not have either gets the default that the function for it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub(crate) kind: Kind,
    pub(crate) pool: Option<Pool>,
    pub(crate) batched_copies: Option<bool>,
}

/// Where memory comes from that is allocated in the order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pool {
    /// A pool of this library's own. There is one for each device of the process.
    Own {
        /// How many bytes the pool keeps for the next allocation when memory is freed. Unused
        /// memory beyond that goes back to the device at the next synchronization. If a device is
        /// opened several times, the latest number counts.
        keep: u64,
    },
    /// The device's current pool: the default pool, unless the program has chosen another one. Its
    /// settings are left as they are.
    Current,
    /// No pool: nothing is allocated in the order of queues.
    None,
}

/// The most bytes that a pool keeps by default.
const MOST_KEPT: u64 = 512 << 20;
/// A pool keeps at most this part of the device's memory by default: one part of 32.
const PART_KEPT: u64 = 32;

impl Options {
    /// The defaults: the device's own memory, and nothing else set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the kind of memory.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets where memory comes from that is allocated in the order of a queue. The default is a
    /// pool of the library's own, which keeps a thirty-second of the device's memory, and 512 MiB
    /// at most.
    #[must_use]
    pub fn with_pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets whether a list of copies is submitted in one call where the driver has a function for
    /// that (`cuMemcpyBatchAsync`, `hipMemcpyBatchAsync`). The default is yes, except on CUDA
    /// devices of compute capability 10, where others have reported that the function crashes.
    #[must_use]
    pub fn with_batched_copies(mut self, batched: bool) -> Self {
        self.batched_copies = Some(batched);
        self
    }

    /// Returns these options, completed by those of the environment variable.
    pub(crate) fn or_environment(self, vendor: &Vendor) -> Result<Self> {
        let Some(text) = std::env::var_os(vendor.options_variable) else { return Ok(self) };
        let said = Self::parse(&text.to_string_lossy()).map_err(|problem| {
            let message = format!("{}: {problem}", vendor.options_variable);
            Error::new(ErrorKind::InvalidArgument, message).during("open")
        })?;
        Ok(Self {
            kind: self.kind,
            pool: self.pool.or(said.pool),
            batched_copies: self.batched_copies.or(said.batched_copies),
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (mut options, mut keep) = (Self::new(), None);
        for pair in text.split_whitespace() {
            match pair.split_once('=') {
                Some(("pool", "own")) => options.pool = None,
                Some(("pool", "current")) => options.pool = Some(Pool::Current),
                Some(("pool", "none")) => options.pool = Some(Pool::None),
                Some(("keep", bytes)) => {
                    let bytes = bytes.parse().map_err(|_| format!("no number of bytes: {pair}"))?;
                    keep = Some(bytes);
                }
                Some(("batched_copies", "0")) => options.batched_copies = Some(false),
                Some(("batched_copies", "1")) => options.batched_copies = Some(true),
                _ => return Err(format!("no option of a device: {pair}")),
            }
        }
        if let (None, Some(keep)) = (options.pool, keep) {
            options.pool = Some(Pool::Own { keep });
        }
        Ok(options)
    }
}

impl Pool {
    /// Returns the default pool for a device with so much memory.
    pub(crate) fn of_device(memory: u64) -> Self {
        Self::Own { keep: MOST_KEPT.min(memory / PART_KEPT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_text() {
        let parse = |text| Options::parse(text).unwrap();
        assert_eq!(parse(""), Options::new());
        assert_eq!(parse(" pool=own keep=7 "), Options::new().with_pool(Pool::Own { keep: 7 }));
        assert_eq!(parse("keep=7"), Options::new().with_pool(Pool::Own { keep: 7 }));
        assert_eq!(parse("pool=current"), Options::new().with_pool(Pool::Current));
        let none = parse("pool=none batched_copies=0");
        assert_eq!(none, Options::new().with_pool(Pool::None).with_batched_copies(false));
        for wrong in ["pool", "pool=mine", "keep=", "keep=-1", "batched_copies=yes", "colour=3"] {
            assert!(Options::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn little_is_kept_of_a_small_device() {
        assert_eq!(Pool::of_device(8 << 30), Pool::Own { keep: 256 << 20 });
        assert_eq!(Pool::of_device(80 << 30), Pool::Own { keep: 512 << 20 });
    }
}
