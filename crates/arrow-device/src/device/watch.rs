//! What the library tells a driver that watches what becomes of memory.
//!
//! Drivers of real runtimes do not watch, and programs without a watching driver pay nothing for
//! this.

use std::sync::Arc;

use super::driver::{Driver, Raw};
use super::{Memory, Queue};

/// Bytes of which the library tells. A view tells all places of its whole tree, even where it is a
/// view of a child or of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPlace {
    /// The address or the handle at which the bytes begin.
    pub memory: Raw<Memory>,
    /// The least number of bytes: 0 where only a device has the length, as of text.
    pub len: u64,
}

/// What becomes of places: see [`Driver::watch`].
///
/// The driver of a queue is told what concerns that queue, and of the release after that. The
/// driver that has the memory is told everything else. Places are told on any thread, in drops as
/// well. Arrays are not named: several may have the same places, and each tells its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// Somebody who submits work to this queue was told the places.
    Told(Raw<Queue>, PlaceOwner),
    /// The view or memory that told the places is gone. No more work on the places is submitted to
    /// this queue, unless another one has told them.
    Withdrawn(Raw<Queue>, PlaceOwner),
    /// An array or a tensor of these places was handed to somebody outside of the library, who may
    /// submit work on them until the array is [`Dropped`](Self::Dropped).
    Exported,
    /// An array of these places was imported.
    Imported,
    /// An array or a tensor of these places was built, or copied to them.
    Built,
    /// Nothing is left of an array that was imported or built. Uses of the places may go on until
    /// [`Released`](Self::Released).
    Dropped,
    /// The last use of this array has ended. The owner of the memory has the places again, unless
    /// another array has them.
    Released,
}

/// The kind of value that has told a place, and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceOwner {
    /// A view, of an array or of a buffer.
    OfView,
    /// A [`Memory`] that is filled, or the buffer that was made of it.
    OfMemory,
}

/// Tells a driver that watches, when it is dropped, that the places of an array are released.
pub(crate) struct WatchedRelease {
    driver: Arc<dyn Driver>,
    places: Box<[WatchedPlace]>,
    /// Whether the driver knows of the array, and not only of its views.
    is_known: bool,
}

impl WatchedRelease {
    /// `made` tells how the array came into being, if the driver is to be told.
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

    /// Tells the driver that nothing is left of the array.
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
