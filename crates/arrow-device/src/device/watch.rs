//! What the library tells a driver that watches what becomes of memory.
//!
//! Drivers of runtimes do not watch, and nobody pays for those that could.

use std::sync::Arc;

use super::driver::{Driver, Raw};
use super::{Memory, Queue};

/// Bytes that the library has told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPlace {
    /// The address or the handle where they begin.
    pub memory: Raw<Memory>,
    /// How many there are at least: only a device has the length of text.
    pub len: u64,
}

/// What becomes of places: see [`Driver::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// A view, or a memory that is being filled, has told the places to somebody who submits work
    /// to this queue.
    Told(Raw<Queue>),
    /// That view or memory is gone: no more work on the places is submitted to this queue, unless
    /// somebody else was told them.
    Withdrawn(Raw<Queue>),
    /// An array or a tensor of these places was handed to somebody outside of the library, who may
    /// submit work on them.
    Exported,
    /// An array of these places was imported.
    Imported,
    /// All that was made of such an import is gone. The places are used until they are
    /// [`Released`](Self::Released).
    ImportDropped,
    /// The last use has ended: whoever owns the memory has the places again.
    Released,
}

/// Tells a driver, when it is dropped, that the places of an array are released.
pub(crate) struct WatchedRelease {
    driver: Arc<dyn Driver>,
    places: Box<[WatchedPlace]>,
}

impl WatchedRelease {
    pub(crate) fn new(driver: Arc<dyn Driver>, places: Box<[WatchedPlace]>) -> Self {
        Self { driver, places }
    }

    /// Tells what else becomes of the same places.
    pub(crate) fn tell(&self, what: Watched) {
        self.driver.watch(what, &self.places);
    }
}

impl Drop for WatchedRelease {
    fn drop(&mut self) {
        self.tell(Watched::Released);
    }
}
