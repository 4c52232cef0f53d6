//! Allocators of a program's own that adopt parts of one allocation.

use std::sync::{Arc, Mutex};

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Allocator, Array, DataType, Device, Error, ErrorKind, Memory, Queue, Result};
use arrow_device_sim::{Kind, Mistake, Sim};

use crate::support::seeds;

const PIECE: u64 = 1024;

/// Pieces of one allocation: free ones are given out again, the last one first.
#[derive(Clone)]
struct Pool {
    base: usize,
    free: Arc<Mutex<Vec<u64>>>,
    /// Freed after the last piece.
    _whole: Arc<Memory>,
}

/// A piece that is in use.
struct Piece {
    offset: u64,
    pool: Pool,
}

impl Pool {
    fn new(device: &Device, queue: &Queue, pieces: u64) -> Self {
        let mut whole = device.allocate(PIECE * pieces).unwrap();
        let base = whole.spot(queue).unwrap().base.bits();
        let free = (0..pieces).map(|piece| PIECE * piece).collect();
        Self { base, free: Arc::new(Mutex::new(free)), _whole: Arc::new(whole) }
    }
}

impl Allocator for Pool {
    fn allocate(&self, device: &Device, len: u64, _queue: Option<&Queue>) -> Result<Memory> {
        let free = if len > PIECE { None } else { self.free.lock().unwrap().pop() };
        let Some(offset) = free else {
            return Err(Error::new(ErrorKind::OutOfMemory, "no piece is free"));
        };
        let raw = Raw::from_bits(self.base + offset as usize);
        let piece = Piece { offset, pool: self.clone() };
        Ok(unsafe { Memory::adopt(device, raw, len, piece) })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pool.free.lock().unwrap().push(self.offset);
    }
}

fn numbers() -> Array {
    Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap()
}

#[test]
fn a_pool_gives_its_pieces_out_again_and_again() {
    for kind in [Kind::Discrete, Kind::HostReadable] {
        Sim::builder().kind(kind).sweep(seeds(200), |sim| {
            let plain = sim.device().open_queue().unwrap();
            let pool = Pool::new(&sim.device(), &plain, 3);
            let queue = sim.device().with_allocator(pool).open_queue().unwrap();
            let kept = numbers().copy_to(&queue).unwrap();
            for _ in 0..5 {
                let copy = kept.copy_to(&queue).unwrap();
                let other = numbers().copy_to(&queue).unwrap();
                assert!(other.to_host().unwrap().equals(&numbers()).unwrap());
                let view = copy.on(&queue).unwrap();
                let place = view.buffer(1).location().spot();
                let kernel = sim.kernel("consume").reads(place, 800);
                kernel.launch(&queue, |_| {}).unwrap();
                drop((view, copy, other));
                queue.synchronize().unwrap();
                arrow_device::deferred::release_finished();
            }
            assert!(kept.to_host().unwrap().equals(&numbers()).unwrap());
        });
    }
}

#[test]
fn a_piece_that_is_shared_is_not_written_to() {
    Sim::builder().sweep(seeds(200), |sim| {
        let plain = sim.device().open_queue().unwrap();
        let pool = Pool::new(&sim.device(), &plain, 3);
        let base = pool.base;
        let queue = sim.device().with_allocator(pool).open_queue().unwrap();
        let copy = numbers().copy_to(&queue).unwrap();
        queue.synchronize().unwrap();
        // The last piece was given out first.
        let spot = Spot { base: Raw::from_bits(base + 2 * PIECE as usize), offset: 0 };
        sim.fill(&plain, spot, 8, 1).unwrap();
        let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
        assert_eq!(kinds, [Mistake::WriteToShared]);
        drop(copy);
    });
}
