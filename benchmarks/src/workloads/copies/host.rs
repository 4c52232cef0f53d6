//! From the host to the host, into memory that is used again and again.

use arrow_device::copy::Options;
use arrow_device::{Batch, Queue, Recycler};

use super::by_hand::Sources;
use super::integers;
use crate::case::{Case, Peer, WorkloadKey};

const WORKLOAD: &str = "copy host to host";

pub(super) fn cases() -> Vec<Case> {
    let wide = [16, 128, 512, 1024, 8192].map(|rows| (1000, rows, "1000 columns of int64"));
    let large = [1 << 17, 1 << 20].map(|rows| (8, rows, "8 columns of int64"));
    let sizes = wide.into_iter().chain(large);
    sizes.flat_map(|(columns, rows, shape)| cases_of(columns, rows, shape)).collect()
}

fn cases_of(columns: usize, rows: usize, shape: &'static str) -> Vec<Case> {
    let what = (WORKLOAD, shape, rows as u64);
    let bytes = (columns * rows * 8) as u64;
    // Made when it is first needed: all sizes together are more than should be held.
    let batch = move || integers(columns, rows);
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "peers are added"))]
    let mut cases = vec![
        ours(what, batch),
        by_hand(what, "memcpy", 1, batch),
        by_hand(what, "memcpy, 2 threads", 2, batch),
    ];
    #[cfg(feature = "peers")]
    cases.extend(super::native::all().into_iter().map(|peer| peer.case(what, batch)));
    cases.into_iter().map(|case| case.moving(bytes)).collect()
}

/// Copies although it is there already, into memory that was used before.
pub(super) fn options() -> Options {
    Options::new().always(true).allocator(Recycler::new(256 << 20))
}

fn ours(what: WorkloadKey, batch: impl Fn() -> Batch + 'static) -> Case {
    let (mut made, options) = (None, options());
    Case::whole(what, Peer::ArrowDevice, move || {
        let batch = made.get_or_insert_with(&batch);
        drop(batch.copy_with(&Queue::host(), &options).unwrap());
    })
}

/// Somebody who has the room already, and threads that are begun for each copy.
fn by_hand(
    what: WorkloadKey,
    name: &'static str,
    threads: usize,
    batch: impl Fn() -> Batch + 'static,
) -> Case {
    let mut made = None;
    Case::whole(what, Peer::ByHand(name), move || {
        let (sources, places, room) = made.get_or_insert_with(|| {
            let sources = Sources::of(&batch());
            let (places, end) = sources.places(64);
            (sources, places, vec![0_u8; end])
        });
        let (sources, places, room) = (&*sources, &*places, Room(room.as_mut_ptr()));
        let share = places.len().div_ceil(threads);
        let of = |part: usize| part * share..((part + 1) * share).min(places.len());
        std::thread::scope(|scope| {
            for part in 1..threads {
                // SAFETY: there is room, it is ours, and each thread has its own buffers.
                scope.spawn(move || unsafe { sources.gather(places, of(part), room.address()) });
            }
            // SAFETY: there is room, it is ours, and each thread has its own buffers.
            unsafe { sources.gather(places, of(0), room.address()) };
        });
    })
}

/// Memory of which each thread fills its part.
#[derive(Clone, Copy)]
struct Room(*mut u8);

// SAFETY: an address; who writes there keeps to their part.
unsafe impl Send for Room {}

impl Room {
    fn address(self) -> *mut u8 {
        self.0
    }
}
