//! A device that copies whole units between two allocations, and callers that copy any bytes.

use arrow_device::copy::{Cut, Options};
use arrow_device::driver::{Region, Route, Spot};
use arrow_device::{Array, DataType, Memory, Queue};
use arrow_device_sim::{Kind, Sim};

use crate::support::{host, host_mut, seeds};

const LEN: usize = 96;

/// A sequence of numbers that a seed begins.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..LEN).map(|_| self.below(256) as u8).collect()
    }

    /// Pieces of which no two destinations meet: from where, to where, how long.
    fn pieces(&mut self) -> Vec<(usize, usize, usize)> {
        let (mut to, mut pieces) = (self.below(6), Vec::new());
        while to < LEN && pieces.len() < 9 {
            let len = 1 + self.below(11).min(LEN - to - 1);
            pieces.push((self.below(LEN - len + 1), to, len));
            to += len + self.below(4);
        }
        pieces
    }
}

fn sweep(test: impl Fn(&Sim, &mut Numbers)) {
    let seed = std::cell::Cell::new(1);
    Sim::builder().kind(Kind::WholeUnits).peers(2).backtraces(false).sweep(seeds(300), |sim| {
        seed.set(seed.get() + 1);
        test(sim, &mut Numbers(seed.get()));
    });
}

/// Memory that has these bytes, and its place.
fn filled(queue: &Queue, bytes: &[u8]) -> (Memory, Spot) {
    let mut memory = queue.allocate(bytes.len() as u64).unwrap();
    memory.write(queue, bytes).unwrap();
    let spot = memory.spot(queue).unwrap();
    (memory, spot)
}

fn read(queue: &Queue, spot: Spot) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    let region = Region { from: spot, to: host_mut(&mut bytes), len: LEN as u64 };
    unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    bytes
}

fn at(spot: Spot, offset: usize) -> Spot {
    Spot { offset: spot.offset + offset as u64, ..spot }
}

fn regions(from: Spot, to: Spot, pieces: &[(usize, usize, usize)]) -> Vec<Region> {
    let region = |(begin, end, len): &(usize, usize, usize)| Region {
        from: at(from, *begin),
        to: at(to, *end),
        len: *len as u64,
    };
    pieces.iter().map(region).collect()
}

fn copied(source: &[u8], before: &[u8], pieces: &[(usize, usize, usize)]) -> Vec<u8> {
    let mut after = before.to_vec();
    for (from, to, len) in pieces {
        after[*to..to + len].copy_from_slice(&source[*from..from + len]);
    }
    after
}

// Requirement: DRV-23
#[test]
fn any_bytes_go_to_the_device_and_back() {
    sweep(|sim, numbers| {
        let queue = sim.device().open_queue().unwrap();
        let (before, source, pieces) = (numbers.bytes(), numbers.bytes(), numbers.pieces());
        let (_memory, spot) = filled(&queue, &before);
        unsafe { queue.copy(Route::FromHost, &regions(host(&source), spot, &pieces)) }.unwrap();
        let after = copied(&source, &before, &pieces);
        assert_eq!(read(&queue, spot), after);
        let mut bytes = before.clone();
        let back = regions(spot, host_mut(&mut bytes), &pieces);
        unsafe { queue.copy(Route::ToHost, &back) }.unwrap();
        queue.synchronize().unwrap();
        assert_eq!(bytes, copied(&after, &before, &pieces));
    });
}

// Requirement: DRV-23
#[test]
fn any_bytes_go_from_one_allocation_to_another_and_from_a_peer() {
    sweep(|sim, numbers| {
        let queue = sim.device().open_queue().unwrap();
        let peer = sim.device_number(1).open_queue().unwrap();
        let (before, source) = (numbers.bytes(), numbers.bytes());
        for route in [Route::Within, Route::FromPeer(&**peer.device().driver())] {
            let from = if matches!(route, Route::Within) { &queue } else { &peer };
            let pieces = numbers.pieces();
            let ((_one, source_spot), (_two, spot)) =
                (filled(from, &source), filled(&queue, &before));
            unsafe { queue.copy(route, &regions(source_spot, spot, &pieces)) }.unwrap();
            assert_eq!(read(&queue, spot), copied(&source, &before, &pieces));
            queue.synchronize().unwrap();
        }
    });
}

#[test]
fn any_bytes_go_to_another_place_in_one_allocation() {
    sweep(|sim, numbers| {
        let queue = sim.device().open_queue().unwrap();
        let before = numbers.bytes();
        let (_memory, spot) = filled(&queue, &before);
        let half = LEN / 2;
        let mut pieces = numbers.pieces();
        pieces.retain(|(_, to, len)| to + len <= half);
        pieces.iter_mut().for_each(|(from, _, len)| *from = half + *from % (half - *len));
        unsafe { queue.copy(Route::Within, &regions(spot, spot, &pieces)) }.unwrap();
        assert_eq!(read(&queue, spot), copied(&before, &before, &pieces));
    });
}

/// The queue has work when an odd copy is submitted that writes what the copy reads: its source,
/// and the rest of the units.
#[test]
fn an_odd_copy_comes_behind_the_work_that_was_submitted() {
    sweep(|sim, _| {
        let queue = sim.device().open_queue().unwrap();
        let ((_one, from), (_two, to)) = (filled(&queue, &[1; LEN]), filled(&queue, &[2; LEN]));
        let mut bytes = vec![0; LEN];
        sim.fill(&queue, from, LEN as u64, 7).unwrap();
        sim.fill(&queue, to, LEN as u64, 9).unwrap();
        let out = Region { from, to: host_mut(&mut bytes), len: 8 };
        unsafe { queue.copy(Route::ToHost, &[out]) }.unwrap();
        queue.synchronize().unwrap();
        sim.fill(&queue, to, LEN as u64, 9).unwrap();
        let back = Region { from: at(host(&bytes), 1), to: at(to, 33), len: 2 };
        unsafe { queue.copy(Route::FromHost, &[back]) }.unwrap();
        let within = Region { from: at(from, 3), to: at(to, 6), len: 5 };
        unsafe { queue.copy(Route::Within, &[within]) }.unwrap();
        let mut after = vec![9; LEN];
        after[33..35].fill(7);
        after[6..11].fill(7);
        assert_eq!(read(&queue, to), after);
    });
}

/// Both halves of a unit come by the host from the beginnings of other units. Nothing of the unit
/// has to be read, and the halves have to be there when the host puts them together.
#[test]
fn a_unit_is_put_together_of_halves_that_have_come() {
    sweep(|sim, _| {
        let queue = sim.device().open_queue().unwrap();
        let ((_one, from), (_two, to)) = (filled(&queue, &[1; LEN]), filled(&queue, &[2; LEN]));
        sim.fill(&queue, from, 8, 7).unwrap();
        sim.fill(&queue, at(from, 8), 8, 9).unwrap();
        let halves = regions(from, to, &[(0, 32, 2), (8, 34, 2)]);
        unsafe { queue.copy(Route::Within, &halves) }.unwrap();
        let mut after = vec![2; LEN];
        after[32..34].fill(7);
        after[34..36].fill(9);
        assert_eq!(read(&queue, to), after);
    });
}

#[test]
fn a_write_of_fewer_bytes_leaves_those_that_were_written() {
    sweep(|sim, _| {
        let queue = sim.device().open_queue().unwrap();
        let (mut memory, spot) = filled(&queue, &[1; LEN]);
        memory.write(&queue, &[2; 5]).unwrap();
        assert_eq!(read(&queue, spot), [&[2; 5][..], &[1; LEN - 5][..]].concat());
    });
}

/// Nothing of a column comes by the host on its way within the device: elements before the first
/// one travel, too, so that each buffer begins at a unit.
#[test]
fn columns_begin_at_units_within_the_device() {
    let sim = Sim::builder().kind(Kind::WholeUnits).log(true).build();
    let queue = sim.device().open_queue().unwrap();
    let words = |rows: i64| (0..rows).map(|row| Some(format!("{}{row}", "x".repeat(40))));
    let columns = [
        (Array::from_values(DataType::Int8, (0..200).map(|row| Some(row as i8))).unwrap(), 3),
        (Array::from_values(DataType::Int16, (0..200).map(|row| Some(row as i16))).unwrap(), 3),
        (Array::from_values(DataType::Int64, (0..200_i64).map(Some)).unwrap(), 3),
        (
            Array::from_values(DataType::Int32, (0..200).map(|row| (row % 3 > 0).then_some(row)))
                .unwrap(),
            7,
        ),
        (Array::from_texts(DataType::Utf8, words(200)).unwrap(), 3),
    ];
    for (column, kept) in columns {
        let there = column.copy_to(&queue).unwrap().slice(39, 80).unwrap();
        let plan = there.plan_copy(&queue, &Options::new().always(true)).unwrap();
        let window = Cut::Window { elements: 80, of: 200, kept };
        assert!(plan.notes().iter().any(|note| note.cut() == window), "{plan}");
        queue.synchronize().unwrap();
        // Offsets that begin at another number go to the host and back, here as everywhere.
        let detours = plan.notes().iter().filter(|note| matches!(note.cut(), Cut::Detour { .. }));
        let expected = plan.allocations() as usize + 1 + 2 * detours.count();
        let before = sim.log().len();
        let copy = plan.run().unwrap();
        queue.synchronize().unwrap();
        assert_eq!(sim.log().len() - before, expected, "{copy:?}");
        assert!(copy.to_host().unwrap().equals(&column.slice(39, 80).unwrap()).unwrap());
    }
}
