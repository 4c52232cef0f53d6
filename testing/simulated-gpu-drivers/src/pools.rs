//! Pools: memory that is allocated in the order of streams, and kept when it is freed.
//!
//! A pool has memory of the device reserved. What is freed stays reserved until somebody
//! synchronises, and then the pool gives back what it has reserved beyond its threshold and does
//! not use. Memory that is reserved and unused is nobody else's.

use arrow_device_sim::hardware::Placement;

use crate::call::entries;
use crate::code::{Answer, Code};
use crate::machine::Machine;

/// A pool of a device.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    /// Bytes of allocations, and of what the pool has of the device.
    used: u64,
    reserved: u64,
    /// How much of what is reserved stays when somebody synchronises.
    threshold: u64,
    is_default: bool,
}

/// Who is to have what access to a pool: a kind of place (1 for a device), its number, and the
/// rights (3 for all).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) place: i32,
    pub(crate) number: i32,
    pub(crate) rights: i32,
}

/// What a pool is to be like: memory of a kind (1), handles of a type (0 for none), and where.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    memory: i32,
    handles: i32,
    place: i32,
    number: i32,
    security: usize,
    reserved: [u64; 8],
}

const DEVICE: i32 = 1;
const ALL: i32 = 3;
const PINNED: i32 = 1;

/// The attributes of pools that are known here: what stays reserved, what is, and what is used.
const THRESHOLD: i32 = 4;
const RESERVED: i32 = 5;
const USED: i32 = 7;

/// What the record notes: a pool took more memory of its device, or gave some back.
const GROWTH: &str = "pool growths";
const TRIM: &str = "pool trims";

impl Machine {
    /// The handle of a device's default pool.
    pub(crate) fn default_pool(&mut self, device: i32) -> Answer<usize> {
        let device = self.device_number(device)?;
        if !self.config.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(self.default_pool_of(device))
    }

    fn default_pool_of(&mut self, device: usize) -> usize {
        let handle = self.context(device) + 8;
        self.pools.entry(handle).or_insert_with(|| Pool::new(device, true));
        handle
    }

    /// The pool that a device allocates from where no other is named.
    pub(crate) fn current_pool(&mut self, device: i32) -> Answer<usize> {
        let default = self.default_pool(device)?;
        let number = self.device_number(device)?;
        Ok(self.device(number)?.pool.unwrap_or(default))
    }

    pub(crate) fn set_current_pool(&mut self, device: i32, pool: usize) -> Answer {
        self.must_be_safe()?;
        let number = self.device_number(device)?;
        if self.pool(pool)?.device != number {
            return Err(Code::INVALID_DEVICE);
        }
        self.device(number)?.pool = Some(pool);
        Ok(())
    }

    pub(crate) fn pool(&mut self, pool: usize) -> Answer<&mut Pool> {
        if !self.pools.contains_key(&pool) {
            return Err(self.misuse(
                "UnknownHandle",
                Code::INVALID_VALUE,
                "This handle is no pool of the driver, or one that was destroyed.",
            ));
        }
        self.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)
    }

    /// # Safety
    /// Null, or properties of a pool.
    pub(crate) unsafe fn make_pool(&mut self, properties: *const Properties) -> Answer<usize> {
        self.must_be_safe()?;
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: null, or properties of a pool, as the caller promises.
        let wanted = unsafe { entries(properties, 1) };
        let [Properties { memory, handles, place, number, security, reserved }] = wanted[..] else {
            return Err(Code::INVALID_VALUE);
        };
        let is_plain = (memory, handles, place) == (PINNED, 0, DEVICE);
        if !is_plain || security != 0 || reserved != [0; 8] {
            return Err(Code::INVALID_VALUE);
        }
        if !self.config.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        let device = self.device_number(number)?;
        self.alive(device)?;
        let handle = self.new_handle();
        self.pools.insert(handle, Pool::new(device, false));
        Ok(handle)
    }

    /// The memory that is allocated from it stays.
    pub(crate) fn destroy_pool(&mut self, pool: usize) -> Answer {
        self.must_be_safe()?;
        let Pool { is_default, device, .. } = *self.pool(pool)?;
        if is_default {
            return Err(Code::INVALID_VALUE);
        }
        self.pools.remove(&pool);
        let state = self.device(device)?;
        state.pool = state.pool.filter(|current| *current != pool);
        Ok(())
    }

    pub(crate) fn set_pool_attribute(&mut self, pool: usize, attribute: i32, value: u64) -> Answer {
        self.must_be_safe()?;
        let pool = self.pool(pool)?;
        if attribute != THRESHOLD {
            return Err(Code::INVALID_VALUE);
        }
        pool.threshold = value;
        Ok(())
    }

    pub(crate) fn pool_attribute(&mut self, pool: usize, attribute: i32) -> Answer<u64> {
        self.must_be_safe()?;
        let pool = self.pool(pool)?;
        match attribute {
            THRESHOLD => Ok(pool.threshold),
            RESERVED => Ok(pool.reserved),
            USED => Ok(pool.used),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Gives back what a pool has reserved beyond this and does not use.
    pub(crate) fn trim_pool(&mut self, pool: usize, keep: u64) -> Answer {
        self.must_be_safe()?;
        let pool = self.pool(pool)?;
        if pool.trim(keep) {
            self.record.note(TRIM);
        }
        Ok(())
    }

    /// Somebody has synchronised with a device.
    pub(crate) fn trim_pools(&mut self, device: usize) {
        for pool in self.pools.values_mut().filter(|pool| pool.device == device) {
            if pool.trim(pool.threshold) {
                self.record.note(TRIM);
            }
        }
    }

    /// Bytes that the pools of a device have and do not use, but for one pool.
    pub(crate) fn idle_in_pools(&self, device: usize, but: Option<usize>) -> u64 {
        let others = self.pools.iter().filter(|(pool, _)| Some(**pool) != but);
        let of_device = others.filter(|(_, pool)| pool.device == device);
        of_device.map(|(_, pool)| pool.reserved - pool.used).sum()
    }

    /// Whether a device has so many bytes left, for one of its pools or for no pool.
    pub(crate) fn has_left(&self, device: usize, len: u64, pool: Option<usize>) -> bool {
        let (used, limit) = self.hardware.used_and_limit(device);
        let used = used.saturating_add(self.idle_in_pools(device, pool));
        used.saturating_add(self.in_allocations(device)).saturating_add(len) <= limit
    }

    /// Bytes of a device in allocations without an address.
    pub(crate) fn in_allocations(&self, device: usize) -> u64 {
        #[cfg(all(target_os = "linux", not(miri)))]
        let bytes = self.physical(device);
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let bytes = {
            let _ = device;
            0
        };
        bytes
    }

    pub(crate) fn take_from_pool(&mut self, pool: usize, len: u64) {
        let Some(pool) = self.pools.get_mut(&pool) else { return };
        pool.used += len;
        if pool.used > pool.reserved {
            pool.reserved = pool.used;
            self.record.note(GROWTH);
        }
    }

    /// Memory of a pool was freed. The pool may be gone.
    pub(crate) fn return_to_pool(&mut self, placement: Placement, len: u64) {
        if let Placement::Pooled(pool) = placement
            && let Some(pool) = self.pools.get_mut(&pool)
        {
            pool.used = pool.used.saturating_sub(len);
        }
    }

    /// Gives devices access to a pool. Only what the list names with all rights has it then; taking
    /// it back is not done here.
    ///
    /// # Safety
    /// The list has that many entries.
    pub(crate) unsafe fn give_pool(
        &mut self,
        pool: usize,
        list: *const Access,
        count: usize,
    ) -> Answer {
        self.must_be_safe()?;
        let home = self.pool(pool)?.device;
        if list.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the list has that many entries, as the caller promises.
        for access in unsafe { entries(list, count) } {
            let device = self.device_number(access.number)?;
            if access.place != DEVICE || !matches!(access.rights, 0 | ALL) {
                return Err(Code::INVALID_VALUE);
            }
            if device != home && !self.config.peers {
                return Err(Code::INVALID_DEVICE);
            }
            if access.rights == ALL {
                self.hardware.give_access(device, home, Placement::Pooled(pool));
            }
        }
        Ok(())
    }
}

impl Pool {
    fn new(device: usize, is_default: bool) -> Self {
        Self { device, used: 0, reserved: 0, threshold: 0, is_default }
    }

    fn trim(&mut self, keep: u64) -> bool {
        let kept = self.used.max(keep.min(self.reserved));
        kept != std::mem::replace(&mut self.reserved, kept)
    }
}
