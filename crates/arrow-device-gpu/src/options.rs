//! [`Options`]: how a device is opened.

use arrow_device::{Error, ErrorKind, Result};

use crate::{Kind, Vendor};

/// How a device is opened: with which memory, from where, and how copies are submitted.
///
/// What a program leaves open is read from an environment variable (`ARROW_DEVICE_CUDA_OPTIONS`,
/// `ARROW_DEVICE_HIP_OPTIONS`), which has pairs with spaces between them: `pool=own keep=1048576`,
/// `pool=current`, `pool=none`, `batched_copies=0`. What is not named there either has the default
/// of the function that sets it here.
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
        /// How many bytes the pool keeps when memory is freed, for the next allocation. What the
        /// pool has beyond that, and nobody uses, goes back to the device whenever somebody waits
        /// for it. Of several openings of a device the last one decides.
        keep: u64,
    },
    /// The pool that is current to the device: the default pool, unless the program has chosen
    /// another one. Its settings are left as they are.
    Current,
    /// No pool: nothing is allocated in the order of queues.
    None,
}

/// No more than this is kept where nobody says how much.
const MOST_KEPT: u64 = 512 << 20;
/// And no more than this part of the device's memory.
const PART_KEPT: u64 = 32;

impl Options {
    /// The device's own memory, and all else as it is by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kind of memory.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Where memory comes from that is allocated in the order of a queue. By default that is a pool
    /// of the library's own, which keeps a thirty-second of the device's memory, and 512 MiB at
    /// most.
    #[must_use]
    pub fn with_pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Whether a list of copies is given to the driver in one call where there is a function for
    /// it (`cuMemcpyBatchAsync`, `hipMemcpyBatchAsync`). By default it is, except on CUDA devices
    /// of compute capability 10, where others have reported that the function crashes.
    #[must_use]
    pub fn with_batched_copies(mut self, batched: bool) -> Self {
        self.batched_copies = Some(batched);
        self
    }

    /// These, and what the environment says of what is left open.
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
    /// The pool of a device with so much memory, where nobody says which.
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
