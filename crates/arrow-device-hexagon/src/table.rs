//! The allocations of this crate: which address belongs to which, and its descriptor.
//!
//! `rpcmem_to_fd` finds an allocation by the address of its first byte only, so the descriptor is
//! asked for once, when memory is allocated. The table belongs to the process and not to a driver,
//! because [`place_of`](crate::place_of) is told an address alone. A child of `fork` has an empty
//! table: it may not use the memory of its parent.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_device::DeviceId;
use arrow_device::driver::PerProcess;

/// One allocation, whose address is its key in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated {
    pub(crate) len: u64,
    pub(crate) descriptor: c_int,
    pub(crate) device: DeviceId,
}

type Table = BTreeMap<usize, Allocated>;

static TABLE: PerProcess<Mutex<Table>> = PerProcess::new(Mutex::new(BTreeMap::new()));

fn table() -> MutexGuard<'static, Table> {
    TABLE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn add(address: usize, allocated: Allocated) {
    table().insert(address, allocated);
}

pub(crate) fn remove(address: usize) -> Option<Allocated> {
    table().remove(&address)
}

/// Finds the allocation that an address points into, and where it begins.
pub(crate) fn find(address: usize) -> Option<(usize, Allocated)> {
    let table = table();
    let (start, found) = table.range(..=address).next_back()?;
    let is_inside = ((address - start) as u64) < found.len;
    is_inside.then_some((*start, *found))
}
