//! Random programs against a model that is too simple to be wrong: reachability in the graph of
//! what is ordered.
//!
//! A program races if two of its accesses conflict and no path leads from one to the other. The
//! simulator must report at the first access that does, and be silent where there is none; and then
//! every order that a seed chooses must give the bytes that running the program line by line gives.

use std::ops::Range;

use arrow_device::{Event, Queue};
use arrow_device_sim::Sim;

const QUEUES: usize = 3;
const BYTES: u64 = 24;

#[derive(Clone, Debug)]
enum Line {
    Read {
        queue: usize,
        bytes: Range<u64>,
    },
    Write {
        queue: usize,
        bytes: Range<u64>,
    },
    /// Records an event; it is known by the number of its line.
    Record {
        queue: usize,
    },
    Wait {
        queue: usize,
        record: usize,
    },
    HostWait {
        record: usize,
    },
    Synchronize {
        queue: usize,
    },
}

/// A generator of its own, so that a change of the simulator's does not change the programs.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn program(seed: u64) -> Vec<Line> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
    let mut lines = Vec::new();
    for number in 0..4 + dice.below(16) as usize {
        let queue = dice.below(QUEUES as u64) as usize;
        let records: Vec<usize> =
            (0..number).filter(|line| matches!(lines[*line], Line::Record { .. })).collect();
        let recent = |dice: &mut Dice| {
            records[records.len() - 1 - dice.below(records.len().min(3) as u64) as usize]
        };
        let start = dice.below(BYTES - 1);
        let bytes = start..start + 1 + dice.below((BYTES - start).min(9));
        lines.push(match dice.below(20) {
            0..4 => Line::Read { queue, bytes },
            4..8 => Line::Write { queue, bytes },
            8..13 => Line::Record { queue },
            13..18 if !records.is_empty() => Line::Wait { queue, record: recent(&mut dice) },
            18 if !records.is_empty() => Line::HostWait { record: recent(&mut dice) },
            19 => Line::Synchronize { queue },
            _ => Line::Record { queue },
        });
    }
    lines
}

/// A program without a race: where an access would race, its queue waits for the others first.
fn ordered_program(seed: u64) -> Vec<Line> {
    let accesses = program(seed).into_iter().filter_map(|line| match &line {
        Line::Read { queue, .. } | Line::Write { queue, .. } => Some((*queue, line)),
        _ => None,
    });
    let mut lines: Vec<Line> = Vec::new();
    for (queue, access) in accesses {
        lines.push(access.clone());
        if first_race(&lines).is_none() {
            continue;
        }
        lines.pop();
        for other in (0..QUEUES).filter(|other| *other != queue) {
            lines.push(Line::Record { queue: other });
            lines.push(Line::Wait { queue, record: lines.len() - 1 });
        }
        lines.push(access);
    }
    lines
}

/// The first line whose access races with an earlier one.
fn first_race(lines: &[Line]) -> Option<usize> {
    let on = |line: &Line| match line {
        Line::Read { queue, .. } | Line::Write { queue, .. } | Line::Record { queue } => {
            Some(*queue)
        }
        Line::Wait { queue, .. } | Line::Synchronize { queue } => Some(*queue),
        Line::HostWait { .. } => None,
    };
    let directly = |from: usize, to: usize| match (&lines[from], &lines[to]) {
        // What the host waited for comes before everything that is submitted later.
        (Line::HostWait { .. } | Line::Synchronize { .. }, _) => true,
        (_, Line::Wait { record, .. } | Line::HostWait { record }) if *record == from => true,
        (from, to) => on(from).is_some() && on(from) == on(to),
    };
    let access = |line: &Line| match line {
        Line::Read { bytes, .. } => Some((bytes.clone(), false)),
        Line::Write { bytes, .. } => Some((bytes.clone(), true)),
        _ => None,
    };
    let conflict = |one: usize, other: usize| {
        access(&lines[one]).zip(access(&lines[other])).is_some_and(|((a, writes), (b, also))| {
            (writes || also) && a.start < b.end && b.start < a.end
        })
    };
    (0..lines.len()).find(|to| {
        // Everything that a path leads from.
        let mut before = vec![false; *to + 1];
        before[*to] = true;
        for middle in (0..=*to).rev() {
            if before[middle] {
                (0..middle)
                    .filter(|from| directly(*from, middle))
                    .for_each(|from| before[from] = true);
            }
        }
        (0..*to).any(|from| !before[from] && conflict(from, *to))
    })
}

/// Runs a program; returns the first line at which there was a report.
fn simulate(lines: &[Line], seed: u64, check_bytes: bool) -> Option<usize> {
    let sim = Sim::builder().seed(seed).backtraces(false).build();
    let queues: Vec<Queue> = (0..QUEUES).map(|_| sim.device().open_queue().unwrap()).collect();
    let mut memory = sim.device().allocate(BYTES).unwrap();
    memory.write(&queues[0], &[0; BYTES as usize]).unwrap();
    let spots: Vec<_> = queues.iter().map(|queue| memory.spot(queue).unwrap()).collect();
    let mut events: Vec<Option<Event>> = Vec::new();
    let mut expected = [0_u8; BYTES as usize];
    let mut first = None;
    for (number, line) in lines.iter().enumerate() {
        let mut event = None;
        match line {
            Line::Read { queue, bytes } => {
                let mut spot = spots[*queue];
                spot.offset += bytes.start;
                let seen = expected[bytes.start as usize..bytes.end as usize].to_vec();
                let kernel = sim.kernel("read").reads(spot, bytes.end - bytes.start);
                let check = move |memory: &mut arrow_device_sim::KernelMemory| {
                    assert!(!check_bytes || memory.input(0) == seen, "line {number}");
                };
                kernel.launch(&queues[*queue], check).unwrap();
            }
            Line::Write { queue, bytes } => {
                let mut spot = spots[*queue];
                spot.offset += bytes.start;
                let byte = number as u8 + 1;
                sim.fill(&queues[*queue], spot, bytes.end - bytes.start, byte).unwrap();
                expected[bytes.start as usize..bytes.end as usize].fill(byte);
            }
            Line::Record { queue } => event = Some(queues[*queue].record().unwrap()),
            Line::Wait { queue, record } => {
                queues[*queue].wait(events[*record].as_ref().unwrap()).unwrap();
            }
            Line::HostWait { record } => events[*record].as_ref().unwrap().synchronize().unwrap(),
            Line::Synchronize { queue } => queues[*queue].synchronize().unwrap(),
        }
        events.push(event);
        if first.is_none() && !sim.reports().is_empty() {
            first = Some(number);
        }
    }
    sim.run_until_idle();
    if check_bytes {
        queues.iter().for_each(|queue| queue.synchronize().unwrap());
        assert_eq!(sim.read(&queues[0], spots[0], BYTES).unwrap(), expected);
    } else {
        sim.take_reports();
    }
    first
}

#[test]
fn a_program_is_reported_at_its_first_race_and_nowhere_else() {
    let programs = if cfg!(miri) { 10 } else { 10_000 };
    let mut racing = 0;
    for seed in 0..programs {
        let lines = program(seed);
        let race = first_race(&lines);
        racing += u64::from(race.is_some());
        for order in 0..2 {
            let reported = simulate(&lines, order, race.is_none());
            assert_eq!(reported, race, "program {seed}: {lines:#?}");
        }
    }
    let some = programs / 5..programs * 4 / 5;
    assert!(cfg!(miri) || some.contains(&racing), "{racing} of {programs} race");
}

#[test]
fn without_a_wait_that_mattered_a_program_is_reported_and_without_another_it_is_not() {
    let (mut mattered, mut redundant) = (0, 0);
    for seed in 0..if cfg!(miri) { 5 } else { 1500 } {
        let lines = ordered_program(seed);
        assert_eq!(simulate(&lines, seed, true), None, "program {seed}");
        for wait in 0..lines.len() {
            if !matches!(lines[wait], Line::Wait { .. }) {
                continue;
            }
            // A record nobody waits for takes the place of the wait: the numbers of the lines stay.
            let mut without = lines.clone();
            without[wait] = Line::Record { queue: 0 };
            let race = first_race(&without);
            if race.is_some() {
                mattered += 1
            } else {
                redundant += 1
            }
            assert_eq!(
                simulate(&without, seed, race.is_none()),
                race,
                "program {seed}, line {wait}"
            );
        }
    }
    assert!(cfg!(miri) || (mattered > 1000 && redundant > 1000), "{mattered}, {redundant}");
}
