//! What a driver that watches is told of an array: who was told its places, and where it goes.

use std::sync::Arc;

use super::node::ArrayNode;
use super::tree::Tree;
use crate::device::driver::{PlaceOwner, Raw, Watched, WatchedPlace};
use crate::device::watch::WatchedRelease;
use crate::{Device, Queue};

impl Tree {
    /// Tells the queue's driver that somebody was told the addresses of the tree's buffers, or that
    /// nobody uses these addresses on the queue any more.
    #[cold]
    pub(super) fn tell_of_use(&self, queue: &Queue, what: fn(Raw<Queue>, PlaceOwner) -> Watched) {
        let driver = queue.device().driver();
        let places = self.places();
        driver.watch(what(queue.raw(), PlaceOwner::OfView), &places);
        let mut watched = self.records.lock(|records| &records.watched);
        if !watched.iter().any(|known| Arc::ptr_eq(known.driver(), driver)) {
            watched.push(WatchedRelease::new(driver.clone(), places, None));
        }
    }

    /// Tells the device's driver, where it watches, how the tree came into being.
    #[cold]
    pub(super) fn tell_of_making(&self, made: Watched) {
        let Some(device) = self.watching_device() else { return };
        let release = WatchedRelease::new(device.driver().clone(), self.places(), Some(made));
        self.records.lock(|records| &records.watched).push(release);
    }

    /// Tells the device's driver, where it watches, that the tree is handed to somebody outside of
    /// the library.
    pub(crate) fn tell_of_export(&self) {
        if let Some(device) = self.watching_device() {
            device.driver().watch(Watched::Exported, &self.places());
        }
    }

    /// The device that has the tree, where its driver watches and it is known which device that is.
    fn watching_device(&self) -> Option<Device> {
        self.open_device().filter(|device| device.properties().watches)
    }

    /// The addresses of all buffers of the tree. The sizes of views are left out: they lie on the
    /// host.
    fn places(&self) -> Box<[WatchedPlace]> {
        let of_node = |(number, node): (u32, ArrayNode)| {
            let place = move |index: usize| {
                let len = self.extent(number, index, node.window.end()).at_least();
                let memory = Raw::from_ptr(node.buffer(index).cast_mut());
                (!memory.is_null()).then_some(WatchedPlace { memory, len })
            };
            let layout = self.schema.node(number).layout;
            let sizes = usize::from(layout.is_variadic());
            (0..(node.n_buffers as usize).saturating_sub(sizes)).filter_map(place)
        };
        (0..).zip(self.nodes()).flat_map(of_node).collect()
    }
}
