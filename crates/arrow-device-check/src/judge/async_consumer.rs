//! Judges consumers of asynchronous streams, by a producer that knows the rules for consumers.

use std::cell::Cell;
use std::time::{Duration, Instant};

use arrow_device::abi::ArrowAsyncDeviceStreamHandler;
use arrow_device_testkit::pushed::{Source, SourceFault};

use super::{RUNS, Scenario, growth};
use crate::bench::{Bench, Where};
use crate::notes::{Notes, Words};
use crate::patience::patience;
use crate::peer::{Advance, Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a stream that ends",
        place: Where::Anywhere,
        run: |peer, bench, notes| judge(peer, bench, notes, None, |_| {}),
    },
    Scenario {
        name: "a stream that fails",
        place: Where::Anywhere,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, None, |source| {
                source.step();
                source.fail(libc::EIO, Some("the cable was pulled"));
            })
        },
    },
    Scenario {
        name: "a stream that fails without a word",
        place: Where::Anywhere,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, None, |source| {
                source.step();
                source.fail(libc::EIO, None);
            })
        },
    },
    Scenario {
        name: "a stream that is released at once",
        place: Where::Anywhere,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, Some(SourceFault::ReleasesAtOnce), |_| {})
        },
    },
    Scenario {
        name: "a stream that is released before its end",
        place: Where::Anywhere,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, Some(SourceFault::ReleasesEarly), |_| {})
        },
    },
    Scenario {
        name: "a handler whose `producer` is null",
        place: Where::Anywhere,
        run: |peer, bench, notes| judge(peer, bench, notes, Some(SourceFault::NoProducer), |_| {}),
    },
    Scenario {
        name: "a task that cannot be extracted",
        place: Where::Anywhere,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, Some(SourceFault::ExtractFailsAndReleases), |_| {})
        },
    },
    Scenario { name: "a stream, many times", place: Where::Anywhere, run: many_times },
];

const RULES: &Words = &[
    ("the handler lacks a callback", "ASY-1"),
    ("the schema was not moved out", "ASY-19"),
    ("tasks were requested", "ASY-6"),
    ("was called after the release", "ASY-14"),
    ("was called from inside", "ASY-18"),
    ("and then refused", "ASY-11"),
    ("extracted", "ASY-9"),
    ("leaked", "ASY-9"),
];

/// How many arrays a stream has.
const ARRAYS: usize = 5;

fn judge(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
    fault: Option<SourceFault>,
    prepare: fn(&Source),
) {
    let Entry::ConsumeAsync(consume) = &peer.entry else { return };
    notes.now(RUNS, "making a handler");
    let mut handler = std::ptr::null_mut();
    let (code, advance) = consume(bench, &raw mut handler);
    if !notes.check(RUNS, code == 0 && !handler.is_null(), || {
        format!("the entry point returned {code}, and the handler is {handler:?}")
    }) {
        return;
    }
    // SAFETY: what the consumer gave, which is not released.
    let is_complete = is_complete(unsafe { &*handler });
    if !notes.check("ASY-1", is_complete, || "the handler lacks a callback".into()) {
        return;
    }
    let id = if fault.is_some() { "SYS-2" } else { "ASY-9" };
    notes.now(id, "consuming a stream");
    let source = Source::of_batches(handler, ARRAYS, fault);
    prepare(&source);
    let is_over = run(&source, &advance);
    if !is_over && source.credits() == 0 && source.sent() < ARRAYS && source.cancels() == 0 {
        notes.skip("ASY-9", "it asks for no more tasks");
        source.release();
    } else if !is_over {
        notes.fail("ASY-14", "the consumer did not let the stream come to its end");
    }
    notes.now("ASY-14", "letting the consumer go");
    let has_threads = until_its_end(peer, &advance, source.is_released(), id, notes);
    drop(advance);
    let settled = settle(&source, has_threads);
    let otherwise = if source.cancels() > 0 { "ASY-20" } else { "ASY-9" };
    let settled = settled.map_err(|complaint| {
        let never = source.cancels() > 0 && complaint.contains("never extracted");
        if never {
            complaint.replace("extracted", "taken out of the stream after `cancel`")
        } else {
            complaint
        }
    });
    if notes.verdict(settled, RULES, otherwise) {
        ["ASY-6", "ASY-9", "ASY-14", "ASY-18", "ASY-19"].iter().for_each(|id| notes.pass(id));
    }
    // The consumer's threads may still call the producer.
    std::mem::forget(source);
}

fn is_complete(handler: &ArrowAsyncDeviceStreamHandler) -> bool {
    handler.on_schema.is_some()
        && handler.on_next_task.is_some()
        && handler.on_error.is_some()
        && handler.release.is_some()
}

/// Lets the consumer come to its end, if it can tell that. Returns whether it may still be at work.
fn until_its_end(
    peer: &Peer,
    advance: &Advance,
    is_released: bool,
    id: &str,
    notes: &Notes,
) -> bool {
    let end = Instant::now() + patience();
    loop {
        match advance() {
            Some(true) => {}
            Some(false) => return false,
            None if !peer.tells_end || !is_released => return true,
            None if Instant::now() > end => {
                notes.fail(id, "the handler was released, and the consumer still waits");
                return true;
            }
            None => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Waits, because tasks may still be on their way through the consumer's threads.
fn settle(source: &Source, has_threads: bool) -> Result<(), String> {
    let end = Instant::now() + patience();
    loop {
        let settled = source.settle();
        let is_waiting = settled.as_ref().is_err_and(|complaint| {
            complaint.contains("never extracted") || complaint.contains("leaked")
        });
        if !is_waiting || !has_threads || Instant::now() > end {
            return settled;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks whether anything is left of consumers whose streams are over.
fn many_times(peer: &Peer, bench: &Bench, notes: &Notes) {
    if !peer.can_count {
        return notes.skip("ASY-21", "its memory is not counted");
    }
    notes.now(RUNS, "consuming a stream many times");
    let is_settled = Cell::new(true);
    let kept = growth::of(|| is_settled.set(is_settled.get() && is_over(peer, bench)));
    if !is_settled.get() {
        return notes.skip("ASY-21", "its streams do not come to their end");
    }
    let Some(kept) = kept else {
        return notes.skip("ASY-21", "nobody tells how much memory is in use");
    };
    notes.check("ASY-21", kept == 0, || {
        format!("{kept} bytes more are in use after each stream that is over")
    });
}

/// Brings one more stream to its end. Returns whether nobody will use it any more.
fn is_over(peer: &Peer, bench: &Bench) -> bool {
    let Entry::ConsumeAsync(consume) = &peer.entry else { return false };
    let mut handler = std::ptr::null_mut();
    let (code, advance) = consume(bench, &raw mut handler);
    // SAFETY: what the consumer gave, which is not released.
    let is_good = code == 0 && !handler.is_null() && is_complete(unsafe { &*handler });
    if !is_good {
        return false;
    }
    let source = Source::of_batches(handler, ARRAYS, None);
    let end = Instant::now() + patience();
    let mut is_over = run(&source, &advance);
    while is_over {
        match advance() {
            Some(true) => {}
            Some(false) => break,
            None if !peer.tells_end => break,
            None if Instant::now() > end => is_over = false,
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    drop(advance);
    let is_settled = is_over && settle(&source, true).is_ok();
    if !is_settled {
        // The consumer may still call the producer.
        std::mem::forget(source);
    }
    is_settled
}

/// Runs both sides until the release. Returns whether it came.
fn run(source: &Source, advance: &Advance) -> bool {
    let end = Instant::now() + patience();
    loop {
        let stepped = source.step();
        if source.is_released() {
            return true;
        }
        match advance() {
            Some(false) if !stepped => return false,
            None if !stepped => {
                if Instant::now() > end {
                    return false;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            _ => {}
        }
    }
}
