//! Checks of two runtimes that are open under one id: neither may use the memory of the other.

use arrow_device::{Array, Device, ErrorKind, Memory, Queue, Result};

use super::world::World;

impl World<'_> {
    /// Checks that queues of the other device with the id of the memory's device do not get the
    /// memory.
    pub(super) fn use_in_twin(&self, memory: &mut Memory, device: &Device) {
        let queues = self.shared.queues.iter().map(|(queue, _)| queue);
        let is_twin =
            |queue: &&Queue| queue.device().id() == device.id() && !is_same(queue.device(), device);
        for queue in queues.filter(is_twin) {
            if memory.spot(queue).is_ok() || memory.write(queue, &[0x66]).is_ok() {
                self.shared.findings.add("memory is used on a queue of another runtime");
            }
        }
    }

    /// Checks that an array that was made on a queue of a twin is in the memory of its runtime.
    pub(super) fn check_that_it_is_used_on(&self, what: &str, made: &Result<Array>, queue: &Queue) {
        let id = queue.device().id();
        if let Ok(array) = made
            && array.device() == id
            && self.shared.is_of_twins(id)
            && array.on(queue).is_err_and(|error| error.kind() == ErrorKind::NotReachable)
        {
            self.shared.findings.add(format!("{what} is not in the runtime that made it"));
        }
    }

    /// Checks that an array on a device that is open in two runtimes is in the memory of one of
    /// them.
    pub(super) fn check_that_a_runtime_has(&self, array: &Array) {
        let is_refused = |queue: &Queue| {
            array.on(queue).is_err_and(|error| error.kind() == ErrorKind::NotReachable)
        };
        let queues = self.shared.queues.iter().map(|(queue, _)| queue);
        let mut own = queues.filter(|queue| queue.device().id() == array.device());
        if self.shared.is_of_twins(array.device()) && own.all(is_refused) {
            self.shared.findings.add("an array is refused by both runtimes of its device");
        }
    }
}

/// Whether two values are one device of one runtime.
pub(super) fn is_same(one: &Device, other: &Device) -> bool {
    one.id() == other.id() && one.driver().runtime() == other.driver().runtime()
}
