//! The conformance suite: every type, in every shape, exchanged in every way, on one device.
//!
//! [`Suite::new`] takes a device, and [`Suite::run`] returns a [`Report`] that prints how many
//! cases each check had. What a device cannot do, by its
//! [`Properties`](arrow_device::driver::Properties), is skipped, and the report gives the reason.
//!
//! First the driver is looked at without arrays, and then every array. Before each check whose
//! outcome depends on order, the queue gets something slow to do, so that a driver that does not
//! wait is seen: see [`Suite::slow`]. Some promises need more than a device: work that is held
//! ([`Suite::holding`]), callbacks ([`Suite::calling_back`]), failures ([`Suite::failing`]), a loss
//! ([`Suite::losing`]). A driver with one fault gives a report with one
//! [finding](Report::findings).
//!
//! The suite owns everything that it makes. On a device that works, it leaves nothing behind. On a
//! device that does not, it leaks memory rather than freeing what the device may still use.

mod busy;
mod checks;
mod data;
mod ends;
mod exchange;
mod pace;
mod probes;
mod report;

use std::cell::Cell;
use std::sync::Arc;

use arrow_device::{Device, Queue, Result};

pub use exchange::{Exchange, Library};
pub use report::{Check, CheckOutcome, Failure, Finding, Report};

use crate::Verdict;
use crate::kinds::{self, Case};
use busy::Busy;
use checks::Scene;
use exchange::Polled;
use pace::Pace;

/// Runs the matrix of arrays on a device. [`Suite::new`] makes one.
///
/// ```
/// use arrow_device::Device;
/// use arrow_device_testkit::{kinds, suite::Suite};
///
/// let suite = Suite::new(&Device::host());
/// # let suite = suite.over(kinds::cases_of([kinds::Kind::Bits]));
/// suite.run().assert();
/// ```
#[must_use = "nothing is checked before `run`"]
pub struct Suite<'a> {
    device: Device,
    cases: Vec<Case>,
    checks: Vec<Check>,
    exchange: Option<&'a dyn Exchange>,
    watch: &'a dyn Fn() -> Verdict,
    other: Option<Device>,
    slow: Option<&'a dyn Fn(&Queue)>,
    hold: Option<&'a Hold>,
    call_back: Option<&'a dyn Fn(Option<ApplicationCall>)>,
    turn: Option<&'a dyn Fn()>,
    fail: Option<&'a dyn Fn()>,
    lose: Option<&'a dyn Fn()>,
}

/// Gives a queue work that goes on until the returned function is called.
type Hold = dyn Fn(&Queue) -> Box<dyn FnOnce()>;

/// A callback that a runtime runs while it is asked or waited for.
type ApplicationCall = Arc<dyn Fn() + Send + Sync>;

/// Only every eleventh of the arrays whose types lie inside each other is looked at.
const STRIDE: usize = 11;

impl<'a> Suite<'a> {
    /// Returns a suite of all checks, for every type in every shape, and for one in eleven of the
    /// arrays whose types lie inside each other.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            cases: pinned(STRIDE),
            checks: Check::ALL.to_vec(),
            exchange: None,
            watch: &|| Ok(()),
            other: None,
            slow: None,
            hold: None,
            call_back: None,
            turn: None,
            fail: None,
            lose: None,
        }
    }

    /// Adds all types inside all types, in every shape.
    pub fn everything(self) -> Self {
        self.over(kinds::cases())
    }

    /// Looks at these arrays only.
    pub fn over(mut self, cases: impl IntoIterator<Item = Case>) -> Self {
        self.cases = cases.into_iter().collect();
        self
    }

    /// Runs these checks only.
    pub fn only(mut self, checks: impl IntoIterator<Item = Check>) -> Self {
        self.checks = checks.into_iter().collect();
        self
    }

    /// Calls `watch` after every case, for a device that is watched. A complaint counts as one of
    /// the case.
    ///
    /// The suite keeps some memory of the device while it runs, unless [`slow`](Self::slow) says
    /// how to keep a queue busy.
    pub fn watched_by(mut self, watch: &'a dyn Fn() -> Verdict) -> Self {
        self.watch = watch;
        self
    }

    /// Adds a second device, whose queues use the data of the first or say that they cannot.
    pub fn beside(mut self, other: &Device) -> Self {
        self.other = Some(other.clone());
        self
    }

    /// Sets how a queue is kept busy for a moment, instead of by a large copy inside the device. A
    /// tenth of a millisecond is enough. A kernel that spins does better, if the backend can launch
    /// one. A device whose work is late anyway needs nothing.
    ///
    /// The queues are busy before each check whose outcome depends on order, so that work for which
    /// nobody waits is not done when it is looked at.
    pub fn slow(mut self, occupy: &'a dyn Fn(&Queue)) -> Self {
        self.slow = Some(occupy);
        self
    }

    /// Sets a function that gives a queue work which goes on until the returned function is called,
    /// such as a wait for an event of the application. The suite then knows that a call which came
    /// back before the work was over did not wait (DRV-5). It is of no use on a device that does
    /// nothing before somebody waits. Where copies may wait by the
    /// [properties](arrow_device::driver::Properties::waiting_copies), no call comes behind them
    /// while work goes on, and the function is not used.
    ///
    /// Without this function the suite compares calls with the work that keeps a queue busy. That
    /// cannot show that a copy waits, because this work consists of copies.
    pub fn holding(mut self, hold: &'a Hold) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Sets a function that gives the runtime a callback to run while it is asked or waited for, or
    /// takes the callback away: for a runtime that runs callbacks of the application then. The
    /// suite checks that they do not run under a lock of the driver (DRV-3).
    pub fn calling_back(mut self, call_back: &'a dyn Fn(Option<ApplicationCall>)) -> Self {
        self.call_back = Some(call_back);
        self
    }

    /// Judges a device whose driver may not wait on this thread, as on the thread of a browser's
    /// page. Wherever the host would wait, the suite calls `turn`, which gives the device a turn
    /// (the next turn of an event loop, a poll of the runtime), and asks. Arrays are copied by
    /// [`PolledCopy`](arrow_device::copy::PolledCopy), unless the suite goes
    /// [through](Self::through) something else, and copies of single bytes have whole
    /// [units](arrow_device::driver::Properties::copy_unit). Of the promises about waits only one
    /// is checked: that waits are refused while work goes on. The report says that the others were
    /// left out.
    ///
    /// Queues are kept busy only by [`slow`](Self::slow), if that is needed at all: most such
    /// devices do nothing before they have a turn.
    pub fn turned_by(mut self, turn: &'a dyn Fn()) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Sets a function that makes the next submitted copy fail after it was accepted, as a
    /// runtime's callback reports later. At the end the suite checks what the driver says about
    /// that (DRV-27).
    pub fn failing(mut self, fail: &'a dyn Fn()) -> Self {
        self.fail = Some(fail);
        self
    }

    /// Sets a function that loses the device, as a runtime's callback reports. Last of all the
    /// suite checks what the driver says about that (DRV-28). The device is of no use afterwards.
    pub fn losing(mut self, lose: &'a dyn Fn()) -> Self {
        self.lose = Some(lose);
        self
    }

    /// Replaces the library by a wrapper, or by one that is wrong.
    pub fn through(mut self, exchange: &'a dyn Exchange) -> Self {
        self.exchange = Some(exchange);
        self
    }

    /// Runs every check for every array. The report has the failures; see [`Report::assert`].
    pub fn run(&self) -> Report {
        let properties = self.device.properties();
        let mut report = Report {
            device: self.device.id(),
            name: properties.name.clone(),
            arrays: self.cases.len(),
            rows: Vec::new(),
            left_out: Vec::new(),
            failures: Vec::new(),
        };
        let pace = Pace(self.turn);
        let busy = match pace.may_wait() || self.slow.is_some() {
            true => Busy::new(&self.device, self.slow),
            false => Ok(Busy::idle()),
        };
        let (mut busy, complaint) = match busy {
            Ok(busy) => (busy, None),
            // The checks will say more about the problem.
            Err(complaint) => (Busy::idle(), Some(complaint)),
        };
        for check in &self.checks {
            let outcome = match checks::reason_to_skip(*check, &self.device, self.other.is_some()) {
                Some(reason) => CheckOutcome::Skipped(reason),
                None => match self.run_check(*check, &mut busy, &mut report) {
                    Some(cases) => CheckOutcome::Run(cases),
                    None => CheckOutcome::Skipped("the device does nothing of the kind".into()),
                },
            };
            report.rows.push((*check, outcome));
        }
        drop(busy);
        self.look_at_ends(&mut report);
        if let Some(complaint) = complaint {
            let case = "keeping a queue busy".into();
            report.failures.push(Failure { check: Check::Waits, case, complaint });
        }
        report
    }

    /// Runs a check. Returns the number of cases, `None` if there was nothing to look at.
    fn run_check(&self, check: Check, busy: &mut Busy<'_>, report: &mut Report) -> Option<usize> {
        let Report { failures, left_out, .. } = report;
        let (writer, reader, elsewhere) = match self.queues() {
            Ok(queues) => queues,
            Err(error) => {
                let complaint = error.to_string();
                failures.push(Failure { check, case: "no array".into(), complaint });
                return Some(0);
            }
        };
        let (pace, device) = (Pace(self.turn), &self.device);
        let (own, polled) = (Library, Polled(pace));
        let default: &dyn Exchange = if pace.may_wait() { &own } else { &polled };
        let exchange = self.exchange.unwrap_or(default);
        let busy_queues = [writer.clone(), reader.clone()];
        let (hold, call_back) = (self.hold, self.call_back);
        let mut scene = Scene {
            exchange,
            device,
            writer,
            reader,
            elsewhere,
            busy,
            hold,
            call_back,
            copies_wait: Cell::new(false),
            pace,
            number: 0,
        };
        let mut fails = |case: &dyn std::fmt::Display, verdict: Verdict| match verdict {
            Ok(()) => false,
            Err(complaint) => {
                failures.push(Failure { check, case: case.to_string(), complaint });
                true
            }
        };
        let (probes, mut looked) = (probes::of(check), 0);
        for probe in &probes {
            if probe.is_of_waits && !pace.may_wait() {
                left_out.push((check, probe.name));
                continue;
            }
            for round in 0..probe.rounds {
                let verdict = probe.run(&scene);
                if round == 0 {
                    looked += usize::from(verdict != Ok(false));
                }
                let verdict = verdict.map(|_| ());
                // Memory goes back when both queues have passed their work.
                let _ = (pace.synchronize(&scene.writer), pace.synchronize(&scene.reader));
                crate::release_what_has_passed();
                if fails(&probe.name, both(verdict, (self.watch)())) {
                    break;
                }
            }
        }
        let cases = if probes.is_empty() { self.cases.as_slice() } else { &[] };
        for (number, case) in cases.iter().enumerate() {
            scene.number = number;
            let verdict = checks::run(check, &scene, &case.plan());
            if !pace.may_wait() {
                // Released memory is freed when the device has had its turn.
                let _ = (pace.synchronize(&scene.writer), pace.synchronize(&scene.reader));
                crate::release_what_has_passed();
            }
            fails(case, both(verdict, (self.watch)()));
        }
        drop(scene);
        busy_queues.iter().for_each(|queue| busy.settle(queue, pace));
        (probes.is_empty() || looked > 0).then_some(looked + cases.len())
    }

    /// Runs the checks of failures and losses, if the means to cause them were given. They teach
    /// nothing where something else is wrong already, and are left out then.
    fn look_at_ends(&self, report: &mut Report) {
        type Look = fn(&Device, &dyn Fn(), Pace<'_>) -> Verdict;
        let ends: [(_, _, Look); 2] = [
            ("work fails after it was accepted", self.fail, ends::work_fails),
            ("the device is lost", self.lose, ends::device_is_lost),
        ];
        let check = Check::Waits;
        for (case, means, look) in ends {
            let Some(means) = means.filter(|_| report.failures.is_empty()) else { continue };
            let verdict = look(&self.device, means, Pace(self.turn));
            if let Some((_, CheckOutcome::Run(cases))) =
                report.rows.iter_mut().find(|(known, _)| *known == check)
            {
                *cases += 1;
            }
            if let Err(complaint) = both(verdict, (self.watch)()) {
                report.failures.push(Failure { check, case: case.into(), complaint });
            }
        }
    }

    /// Opens a queue that writes, one that reads, and one on the other device.
    fn queues(&self) -> Result<(Queue, Queue, Option<Queue>)> {
        let elsewhere = self.other.as_ref().map(Device::open_queue).transpose()?;
        Ok((self.device.open_queue()?, self.device.open_queue()?, elsewhere))
    }
}

impl std::fmt::Debug for Suite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Suite({:?}, {} arrays, {:?})", self.device, self.cases.len(), self.checks)
    }
}

/// Joins two verdicts.
fn both(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Err(one), Err(other)) => Err(format!("{one}; {other}")),
        (one, other) => one.and(other),
    }
}

/// Returns every type in every shape, and of the arrays of types inside each other every
/// `stride`-th.
fn pinned(stride: usize) -> Vec<Case> {
    let types = kinds::cases_of(kinds::types());
    types.chain(kinds::cases().step_by(stride)).collect()
}
