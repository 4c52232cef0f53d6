//! What the library tells a driver that watches what becomes of memory.
//!
//! Drivers of runtimes do not watch, and nobody pays for those that could.

use std::sync::Arc;

use super::driver::{Driver, Raw};
use super::{Memory, Queue};

/// Bytes that the library has told of. A view tells all places of its whole tree, also where it is
/// a view of a child or of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPlace {
    /// The address or the handle where they begin.
    pub memory: Raw<Memory>,
    /// How many there are at least: 0 where only a device has the length, as of text.
    pub len: u64,
}

/// What becomes of places: see [`Driver::watch`].
///
/// The driver of the queue is told what is told for the queue, and of the release after that; the
/// driver that has the memory is told the rest. Places are told on any thread, in drops as well.
/// Arrays have no names: several may have the same places, and each tells its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// Somebody who submits work to this queue was told the places.
    Told(Raw<Queue>, PlaceOwner),
    /// Who told them is gone: no more work on the places is submitted to this queue, unless
    /// somebody else has told them.
    Withdrawn(Raw<Queue>, PlaceOwner),
    /// An array or a tensor of these places was handed to somebody outside of the library, who may
    /// submit work on them until the array is [`Dropped`](Self::Dropped).
    Exported,
    /// An array of these places was imported.
    Imported,
    /// An array or a tensor of these places was built, or copied to them.
    Built,
    /// Nothing is left of an array that was imported or built. The places are used until they are
    /// [`Released`](Self::Released).
    Dropped,
    /// The last use of this array has ended: whoever owns the memory has the places again, unless
    /// another array has them.
    Released,
}

/// What has told a place, and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceOwner {
    /// A view, of an array or of a buffer.
    OfView,
    /// A memory that is filled, or the buffer that was made of it.
    OfMemory,
}

/// Tells a driver that watches, when it is dropped, that the places of an array are released.
pub(crate) struct WatchedRelease {
    driver: Arc<dyn Driver>,
    places: Box<[WatchedPlace]>,
    /// Whether the driver knows of the array, and not only of views.
    is_known: bool,
}

impl WatchedRelease {
    /// `made` is how the array came into being, where the driver is to be told.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        places: Box<[WatchedPlace]>,
        made: Option<Watched>,
    ) -> Self {
        if let Some(made) = made {
            driver.watch(made, &places);
        }
        Self { driver, places, is_known: made.is_some() }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Nothing is left of the array.
    pub(crate) fn is_dropped(&self) {
        if self.is_known {
            self.driver.watch(Watched::Dropped, &self.places);
        }
    }
}

impl Drop for WatchedRelease {
    fn drop(&mut self) {
        self.driver.watch(Watched::Released, &self.places);
    }
}
