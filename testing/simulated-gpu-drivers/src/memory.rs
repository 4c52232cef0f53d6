//! Memory: allocated, freed, copied, filled; and what is known of an address.

use arrow_device_sim::hardware::{Located, Placement, Reading, Stretch};

use crate::call::Then;
use crate::code::{Answer, Code};
use crate::machine::Machine;

/// What a function takes an end of a copy for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
    Either,
}

/// What an address is to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Memory of a device, or that devices share with the host.
    Memory(Located),
    /// Ordinary memory of the host.
    Host,
}

/// Which copies of ordinary host memory the host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pageable {
    /// Those to the host. What comes from there is taken before the call returns.
    WaitsWhenWritten,
    /// All.
    Waits,
}

impl Machine {
    pub(crate) fn allocate(
        &mut self,
        device: usize,
        len: usize,
        placement: Placement,
    ) -> Answer<usize> {
        self.must_be_safe()?;
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if placement == Placement::Managed && !self.config.managed {
            return Err(Code::NOT_SUPPORTED);
        }
        if placement == Placement::Device && !self.has_left(device, len as u64, None) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let allocated = self.hardware.allocate(device, len as u64, placement, None);
        self.take_turns(device);
        allocated.map_err(|error| self.code_of(&error, device))
    }

    /// Allocates in the order of a stream: from a pool, or from the one that is current to the
    /// stream's device.
    pub(crate) fn allocate_in_order(
        &mut self,
        current: usize,
        len: usize,
        pool: Option<usize>,
        stream: usize,
    ) -> Answer<usize> {
        if !self.config.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = self.stream(Some(current), stream)?;
        let (lane, device) = self.lane(stream)?;
        self.alive(device)?;
        if self.is_captured(stream)? {
            // It would belong to the graph, and there are none here.
            return Err(Code::NOT_SUPPORTED);
        }
        let pool = match pool {
            Some(pool) => pool,
            None => self.current_pool(device as i32)?,
        };
        if self.pool(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        self.enter(stream);
        let (bytes, placement) = (len as u64, Placement::Pooled(pool));
        if !self.has_left(device, bytes, Some(pool)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let allocated = self.hardware.allocate(device, bytes, placement, Some(lane));
        let address = allocated.map_err(|error| self.code_of(&error, device))?;
        self.take_from_pool(pool, bytes);
        Ok(address)
    }

    /// Frees what was allocated on a device or managed (`host` false), or pinned (`host` true).
    /// Nothing at address 0 is freed with success.
    pub(crate) fn free(&mut self, address: usize, host: bool) -> Answer<Then> {
        self.must_be_safe()?;
        if address == 0 {
            return if host { Err(Code::INVALID_VALUE) } else { Ok(Then::Return) };
        }
        let found = self.hardware.locate(address);
        if let Some(found) = found.filter(|found| !found.freed && found.base == address) {
            let is_mapped = matches!(found.placement, Placement::Mapped(_));
            if is_mapped || (found.placement == Placement::Pinned) != host {
                return Err(self.misuse(
                    "WrongFree",
                    Code::INVALID_VALUE,
                    "Memory is freed by the function for another kind of memory.",
                ));
            }
            self.hardware.free(address);
            self.return_to_pool(found.placement, found.len);
            self.alive(found.device)?;
            let is_pooled = matches!(found.placement, Placement::Pooled(_));
            let waits = self.config.frees_wait && !is_pooled;
            return Ok(if waits { Then::Quiet } else { Then::Return });
        }
        // The engine says what is wrong with it.
        self.hardware.free(address);
        Err(Code::INVALID_VALUE)
    }

    /// Frees in the order of a stream.
    pub(crate) fn free_in_order(
        &mut self,
        current: usize,
        address: usize,
        stream: usize,
    ) -> Answer {
        if !self.config.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        let found = self.hardware.locate(address);
        let is_fit = |found: &Located| {
            let is_mapped = matches!(found.placement, Placement::Mapped(_));
            !found.freed && found.base == address && !is_mapped && !found.placement.is_for_host()
        };
        let Some(found) = found.filter(is_fit) else {
            self.hardware.free(address);
            return Err(Code::INVALID_VALUE);
        };
        self.submit(Some(current), stream, |hardware, lane| hardware.free_in_order(lane, address))?;
        self.return_to_pool(found.placement, found.len);
        Ok(())
    }

    /// What an address is. One that is freed, or that nobody has, is a mistake and is reported.
    pub(crate) fn end(&mut self, address: usize, len: usize) -> Answer<End> {
        if address == 0 {
            return Err(Code::INVALID_VALUE);
        }
        match self.hardware.locate(address) {
            Some(found) => {
                let fits = (address - found.base) as u64 + len as u64 <= found.len;
                if fits && !found.freed { Ok(End::Memory(found)) } else { Err(Code::INVALID_VALUE) }
            }
            None if self.hardware.is_device_address(address) => Err(Code::INVALID_VALUE),
            None => Ok(End::Host),
        }
    }

    /// One copy. Both ends are looked up.
    ///
    /// # Safety
    /// What is no memory of the driver is host memory that may be read or written, a destination
    /// until the stream has passed.
    pub(crate) unsafe fn copy(
        &mut self,
        current: usize,
        stream: usize,
        stretch: Stretch,
        pageable: Pageable,
    ) -> Answer<Then> {
        // What may be read at once may be read when the stream gets there.
        let reading = if self.config.pageable_waits { stretch.reading } else { Reading::InOrder };
        let stretch = Stretch { reading, ..stretch };
        // SAFETY: what is no memory of the driver is host memory that may be read or written, a
        // destination until the stream has passed, as the caller promises.
        unsafe { self.copies(current, stream, &[stretch], pageable) }
    }

    /// Copies without an order among each other.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    pub(crate) unsafe fn copies(
        &mut self,
        current: usize,
        stream: usize,
        stretches: &[Stretch],
        pageable: Pageable,
    ) -> Answer<Then> {
        let (mut waits, mut failed) = (false, None);
        for stretch in stretches.iter().filter(|stretch| stretch.len > 0) {
            let len = stretch.len as usize;
            match (self.end(stretch.from, len), self.end(stretch.to, len)) {
                (Ok(from), Ok(to)) => {
                    let from_host = from == End::Host && pageable == Pageable::Waits;
                    waits |= to == End::Host || from_host;
                }
                (Err(code), _) | (_, Err(code)) => failed = Some(code),
            }
        }
        let is_null = stretches.iter().any(|one| one.len > 0 && (one.from == 0 || one.to == 0));
        if is_null {
            return Err(Code::INVALID_VALUE);
        }
        let submitted = self.submit(Some(current), stream, |hardware, lane| {
            // SAFETY: as `copy`, as the caller promises.
            unsafe { hardware.transfer(lane, stretches) }
        })?;
        // The engine has reported what is wrong, with both places.
        if let Some(code) = failed {
            return Err(code);
        }
        let stream = self.stream(Some(current), stream)?;
        let (lane, device) = self.lane(stream)?;
        if !submitted && waits {
            // What waits cannot be part of a graph.
            self.must_not_capture(stream)?;
        }
        if !submitted {
            // Nobody promises that ordinary memory is there when the graph is launched.
            let mut is_driver = |address| matches!(self.end(address, 0), Ok(End::Memory(_)));
            let is_kept = |one: &&Stretch| one.len > 0 && is_driver(one.from) && is_driver(one.to);
            let kept = stretches.iter().filter(is_kept).copied().collect();
            self.keep_for_graph(stream, kept);
        }
        let waits = waits && self.config.pageable_waits;
        Ok(if submitted && waits { Then::ForStream(lane, device) } else { Then::Return })
    }

    /// Sets values of `width` bytes.
    pub(crate) fn fill(
        &mut self,
        current: usize,
        stream: usize,
        (address, count): (usize, usize),
        (value, width): (u32, usize),
    ) -> Answer {
        let len = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        if !address.is_multiple_of(width) {
            return Err(Code::INVALID_VALUE);
        }
        if len == 0 {
            self.stream(Some(current), stream)?;
            return Ok(());
        }
        let end = self.end(address, len);
        if end == Ok(End::Host) {
            return Err(Code::INVALID_VALUE);
        }
        self.submit(Some(current), stream, |hardware, lane| {
            if width == 1 {
                return hardware.fill(lane, address, len as u64, value as u8);
            }
            let bytes = value.to_ne_bytes();
            let name = "fill".to_owned();
            let run = Box::new(move |memory: &mut arrow_device_sim::KernelMemory| {
                let cells = memory.output(0).chunks_exact_mut(4);
                cells.for_each(|cell| cell.copy_from_slice(&bytes));
            });
            hardware.launch(lane, name, &[], &[(address, len as u64)], run)
        })?;
        end.map(|_| ())
    }

    /// Free bytes and all bytes of a device.
    pub(crate) fn memory_info(&mut self, device: usize) -> (usize, usize) {
        let (used, limit) = self.hardware.used_and_limit(device);
        let used = used + self.idle_in_pools(device, None) + self.in_allocations(device);
        (limit.saturating_sub(used) as usize, limit as usize)
    }

    /// What is known of an address that is the driver's and not freed.
    pub(crate) fn pointer(&mut self, address: usize) -> Option<Located> {
        self.hardware
            .locate(address)
            .filter(|found| !found.freed && ((address - found.base) as u64) < found.len)
    }
}
