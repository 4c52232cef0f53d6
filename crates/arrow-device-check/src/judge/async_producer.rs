//! Judges producers of asynchronous streams, by a consumer that knows the rules for producers.

use std::time::Instant;

use arrow_device_testkit::Verdict;
use arrow_device_testkit::pushed::{Outcome, Sink, SinkFault};

use super::{RUNS, Scenario};
use crate::bench::{Bench, Where};
use crate::notes::{Notes, Words};
use crate::patience::patience;
use crate::peer::{Advance, Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a stream that is read to its end", place: Where::Anywhere, run: to_the_end },
    Scenario { name: "a stream that is read one by one", place: Where::Anywhere, run: one_by_one },
    Scenario { name: "a consumer that takes its time", place: Where::Anywhere, run: slowly },
    Scenario { name: "a consumer that asks for nothing", place: Where::Anywhere, run: nothing },
    Scenario {
        name: "a request for nothing",
        place: Where::Anywhere,
        run: |peer, bench, notes| senseless(peer, bench, notes, 0),
    },
    Scenario {
        name: "a request for less than nothing",
        place: Where::Anywhere,
        run: |peer, bench, notes| senseless(peer, bench, notes, -1),
    },
    Scenario { name: "a consumer that cancels", place: Where::Anywhere, run: cancelled },
    Scenario {
        name: "a consumer that cancels twice, and asks for more",
        place: Where::Anywhere,
        run: after_cancel,
    },
    Scenario {
        name: "a consumer that refuses the schema",
        place: Where::Anywhere,
        run: |peer, bench, notes| refused(peer, bench, notes, true),
    },
    Scenario {
        name: "a consumer that refuses a task",
        place: Where::Anywhere,
        run: |peer, bench, notes| refused(peer, bench, notes, false),
    },
    Scenario {
        name: "a consumer that takes a task and then refuses it",
        place: Where::Anywhere,
        run: taken_and_refused,
    },
    Scenario { name: "a stream that fails", place: Where::Anywhere, run: failing },
    Scenario { name: "tasks that nobody wants", place: Where::Anywhere, run: discarded },
];

/// The rules that complaints of the consumer are about.
const RULES: &Words = &[
    ("was called before `producer` was set", "ASY-2"),
    ("the producer lacks a callback", "ASY-2"),
    ("there is no producer, or no schema", "ASY-3"),
    ("`on_next_task` was called before `on_schema`", "ASY-3"),
    ("there was a schema already", "ASY-3"),
    (TOO_MANY, "ASY-4"),
    ("a cancel led to an error", "ASY-7"),
    ("`request` called", "ASY-5"),
    ("`cancel` called", "ASY-18"),
    ("after a refusal", "ASY-11"),
    ("after the end", "ASY-8"),
    ("after `on_error`", "ASY-12"),
    ("has the code 0", "ASY-12"),
    ("a task has no `extract_data`", "ASY-9"),
    ("a task that nobody wants answers", "ASY-9"),
    ("a task has failed", "ASY-10"),
    ("`extract_data`", "ASY-10"),
    ("the metadata of", "ASY-15"),
    ("another type of device", "ASY-17"),
    ("was called while", "ASY-13"),
    ("was called after the release", "ASY-13"),
    ("`release` was called", "ASY-13"),
    ("unreleased", "ARR-13"),
];

const TOO_MANY: &str = "more tasks than were requested";

/// A producer that was started, and its consumer.
struct Running {
    sink: Sink,
    advance: Advance,
}

fn start(peer: &Peer, bench: &Bench, notes: &Notes, sink: Sink) -> Option<Running> {
    let Entry::ProduceAsync(produce) = &peer.entry else { return None };
    start_with(produce, bench, notes, sink)
}

type ProduceAsync =
    dyn Fn(&Bench, *mut arrow_device::abi::ArrowAsyncDeviceStreamHandler) -> (i32, Advance);

fn start_with(produce: &ProduceAsync, bench: &Bench, notes: &Notes, sink: Sink) -> Option<Running> {
    notes.now("ASY-16", "starting a stream, which must not wait for its consumer");
    let (code, advance) = produce(bench, sink.handler());
    let running = Running { sink, advance };
    notes.check(RUNS, code == 0, || format!("the entry point returned {code}")).then_some(running)
}

impl Running {
    /// Lets the producer go on until a condition holds or a rule is broken. Returns whether the
    /// condition holds.
    fn until(&self, is_so: impl Fn(&Sink) -> bool) -> bool {
        self.whatever_comes(|sink| is_so(sink) || self.is_wrong());
        is_so(&self.sink)
    }

    /// Lets the producer go on until a condition holds, whatever it does meanwhile.
    fn whatever_comes(&self, is_so: impl Fn(&Sink) -> bool) {
        let end = Instant::now() + patience();
        while !is_so(&self.sink) {
            match (self.advance)() {
                Some(false) => return,
                Some(true) => {}
                None if Instant::now() > end => return,
                None => std::thread::sleep(std::time::Duration::from_micros(200)),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.sink.outcome() != Outcome::Open
    }

    /// Whether the producer has broken a rule. Later mistakes of the stream may be consequences,
    /// and prove nothing about other rules.
    fn is_wrong(&self) -> bool {
        self.sink.complaints().is_err()
    }

    /// Takes tasks until the stream is over. Returns how many tasks failed.
    fn take_all(&self, asks: bool) -> usize {
        let mut failed = 0;
        loop {
            self.until(|sink| sink.waiting() > 0 || sink.outcome() != Outcome::Open);
            if self.is_wrong() {
                return failed;
            }
            let taken = if asks { self.sink.take() } else { self.sink.extract_only() };
            match taken {
                None => return failed,
                Some(Ok(_)) => {}
                Some(Err(_)) => failed += 1,
            }
        }
    }

    /// Checks that the release comes, and nothing was done wrong.
    fn settle(self, notes: &Notes) {
        let is_over = self.until(|sink| sink.outcome() != Outcome::Open);
        notes.check("ASY-13", is_over || self.is_wrong(), || {
            "the handler was never released".into()
        });
        let complaints = if is_over { self.sink.settle() } else { self.sink.complaints() };
        let is_right = notes.verdict(first_of(complaints), RULES, "ASY-13");
        if is_right && is_over {
            ["ASY-2", "ASY-3", "ASY-4", "ASY-5", "ASY-13", "ASY-15", "ASY-17", "ASY-18"]
                .iter()
                .for_each(|id| notes.pass(id));
        }
        // Threads of the peer may still call it.
        std::mem::forget(self);
    }
}

/// Returns the first complaint. Later complaints may be its consequences.
fn first_of(complaints: Verdict) -> Verdict {
    complaints.map_err(|all| all.split("; ").next().unwrap_or_default().to_owned())
}

fn to_the_end(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(1000, None)) else { return };
    notes.now("ASY-8", "reading a stream to its end");
    let failed = running.take_all(false);
    let (is_good, count) = (running.sink.outcome() == Outcome::Ended, running.sink.arrived());
    end(running, failed, notes);
    if !is_good || count == 0 {
        return;
    }
    let Some(running) = start(peer, bench, notes, Sink::new(count, None)) else { return };
    notes.now("ASY-8", "asking for as many arrays as there are");
    let failed = running.take_all(false);
    end(running, failed, notes);
}

/// Checks that the stream ended as a good stream does.
fn end(running: Running, failed: usize, notes: &Notes) {
    if ended(&running, failed, notes) {
        running.settle(notes);
    } else {
        // Threads of the peer may still call it.
        std::mem::forget(running);
    }
}

/// Whether only the release is missing.
fn ended(running: &Running, failed: usize, notes: &Notes) -> bool {
    if running.is_wrong() {
        return true;
    }
    let outcome = running.sink.outcome();
    if failed > 0 {
        let is_told = running.sink.was_told_an_error();
        return notes.check("ASY-10", is_told, || {
            format!("`extract_data` failed, and no error followed: the stream is {outcome:?}")
        });
    }
    let seen = match outcome {
        Outcome::Ended => None,
        Outcome::Open if running.sink.was_told_the_end() => None,
        Outcome::Open => Some("the end was never told, though all that came was taken".into()),
        Outcome::Released => {
            Some("the handler was released without the end having been told".into())
        }
        Outcome::Failed(code, text) => Some(format!("a good stream failed with {code} ({text:?})")),
    };
    notes.check("ASY-8", seen.is_none(), || seen.unwrap_or_default())
}

fn one_by_one(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(1, None)) else { return };
    notes.now("ASY-4", "reading a stream one by one");
    let mut failed = 0;
    while !running.is_over() {
        let came = running.until(|sink| sink.waiting() > 0 || sink.outcome() != Outcome::Open);
        if !came || running.is_wrong() {
            break;
        }
        match running.sink.take() {
            Some(Err(_)) => failed += 1,
            Some(Ok(_)) => {}
            None => break,
        }
    }
    end(running, failed, notes);
}

/// Lingers in callbacks, so that callbacks that run at the same time overlap.
fn slowly(peer: &Peer, bench: &Bench, notes: &Notes) {
    let sink = Sink::new(1000, None).lingering(std::time::Duration::from_millis(10));
    let Some(running) = start(peer, bench, notes, sink) else { return };
    notes.now("ASY-13", "reading a stream whose consumer takes its time in each callback");
    running.take_all(false);
    running.settle(notes);
}

fn nothing(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(0, None)) else { return };
    notes.now("ASY-16", "asking for nothing");
    // Tasks that have come by now came too early. Others may be on their way.
    while !running.is_wrong() && (running.advance)() == Some(true) {}
    if running.is_wrong() {
        return running.settle(notes);
    }
    notes
        .check("ASY-4", running.sink.arrived() == 0, || "a task came that nobody asked for".into());
    notes.pass("ASY-16");
    if !running.until(|sink| sink.is_open_to_calls()) {
        notes.skip("ASY-7", "no schema came while nothing was asked for");
        std::mem::forget(running);
        return;
    }
    notes.now("ASY-7", "cancelling before anything was asked for");
    running.sink.cancel();
    running.settle(notes);
}

fn senseless(peer: &Peer, bench: &Bench, notes: &Notes, count: i64) {
    let Some(running) = start(peer, bench, notes, Sink::new(0, None)) else { return };
    notes.now("ASY-6", &format!("asking for {count} tasks"));
    if !running.until(|sink| sink.is_open_to_calls()) {
        notes.skip("ASY-6", "no schema came");
        std::mem::forget(running);
        return;
    }
    if running.is_wrong() {
        return running.settle(notes);
    }
    running.sink.request(count);
    running.until(|sink| sink.outcome() != Outcome::Open || sink.arrived() > 0);
    // Tasks that were not requested are the effect of this request.
    let complaints = first_of(running.sink.complaints());
    if complaints.is_err_and(|complaint| !complaint.contains(TOO_MANY)) {
        return running.settle(notes);
    }
    let outcome = running.sink.outcome();
    let is_told = running.sink.was_told_an_error();
    notes.check("ASY-6", is_told, || {
        let tasks = running.sink.arrived();
        format!(
            "`request({count})` led to no error: {tasks} tasks came, and the stream is {outcome:?}"
        )
    });
    if is_told {
        running.settle(notes);
    } else {
        std::mem::forget(running);
    }
}

fn cancelled(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(1, None)) else { return };
    notes.now("ASY-7", "cancelling");
    running.until(|sink| sink.waiting() > 0 || sink.outcome() != Outcome::Open);
    if running.is_wrong() {
        return running.settle(notes);
    }
    if running.is_over() {
        notes.skip("ASY-7", "the stream was over before it could be cancelled");
    } else {
        running.sink.cancel();
        running.sink.discard();
        notes.pass("ASY-7");
    }
    running.settle(notes);
}

fn after_cancel(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(0, None)) else { return };
    notes.now("ASY-7", "cancelling twice");
    if !running.until(|sink| sink.is_open_to_calls()) {
        notes.skip("ASY-7", "no schema came while nothing was asked for");
        std::mem::forget(running);
        return;
    }
    if running.is_wrong() {
        return running.settle(notes);
    }
    // A producer with threads may be done, and free itself, between the two calls.
    let has_threads = (running.advance)().is_none();
    running.sink.cancel();
    if !has_threads && !running.is_over() && !running.is_wrong() {
        running.sink.cancel();
        notes.now("ASY-6", "asking for more after a cancel");
        running.sink.request(-1);
        running.until(|sink| sink.outcome() != Outcome::Open);
        let complaints = first_of(running.sink.complaints());
        let words: &Words = &[("a cancel led to an error", "ASY-6"), (TOO_MANY, "ASY-6")];
        let is_of_request =
            |complaint: &str| words.iter().any(|(part, _)| complaint.contains(part));
        if complaints.as_ref().is_err_and(|complaint| is_of_request(complaint)) {
            let did = complaints
                .map_err(|what| format!("a request after `cancel` did something: {what}"));
            notes.verdict(did, words, "ASY-6");
            std::mem::forget(running);
            return;
        }
        notes.pass("ASY-6");
    }
    running.settle(notes);
}

fn refused(peer: &Peer, bench: &Bench, notes: &Notes, schema: bool) {
    let sink = Sink::new(2, None);
    if schema {
        sink.refuse_schema(7);
    } else {
        sink.refuse_task(0, 7);
    }
    let Some(running) = start(peer, bench, notes, sink) else { return };
    notes.now("ASY-11", "refusing what came");
    running.whatever_comes(|sink| sink.outcome() != Outcome::Open);
    let outcome = running.sink.outcome();
    let first = first_of(running.sink.complaints());
    let is_other = first.is_err_and(|complaint| !complaint.contains("after a refusal"));
    // A missing release is reported below.
    let is_right = matches!(outcome, Outcome::Released | Outcome::Open) || is_other;
    notes.check("ASY-11", is_right, || {
        format!("after a refusal only the release may come, and the stream is {outcome:?}")
    });
    running.settle(notes);
}

/// Tries a consumer's mistake. The producer has to survive it, and to release the handler.
fn taken_and_refused(peer: &Peer, bench: &Bench, notes: &Notes) {
    let sink = Sink::new(2, Some(SinkFault::ExtractsThenRefuses));
    sink.refuse_task(0, 7);
    let Some(running) = start(peer, bench, notes, sink) else { return };
    notes.now("SYS-2", "refusing a task that was extracted");
    let is_over = running.until(|sink| sink.outcome() != Outcome::Open);
    notes.check("ASY-13", is_over || running.is_wrong(), || {
        "a task was extracted and then refused, and the handler was never released".into()
    });
    notes.pass("SYS-2");
    // Threads of the peer may still call it.
    std::mem::forget(running);
}

fn failing(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(Entry::ProduceAsync(produce)) = &peer.failing else {
        return notes.skip("ASY-12", "there is no function whose name ends with `_failing`");
    };
    let Some(running) = start_with(produce, bench, notes, Sink::new(1000, None)) else { return };
    notes.now("ASY-12", "reading a stream that fails");
    let failed = running.take_all(false);
    let outcome = running.sink.outcome();
    let id = if failed > 0 { "ASY-10" } else { "ASY-12" };
    let is_told = running.sink.was_told_an_error() || running.is_wrong();
    notes.check(id, is_told, || format!("a stream that was to fail is {outcome:?}"));
    running.settle(notes);
}

fn discarded(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(running) = start(peer, bench, notes, Sink::new(1000, None)) else { return };
    notes.now("ASY-9", "extracting tasks with NULL");
    while running.until(|sink| sink.waiting() > 0) {
        running.sink.discard();
    }
    notes.pass("ASY-9");
    running.settle(notes);
}
