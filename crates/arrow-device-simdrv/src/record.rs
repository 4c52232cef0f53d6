//! What is remembered for tests: each call, each mistake, and the calls that are to fail.

use std::collections::BTreeMap;

use arrow_device_sim::{Report as SimReport, Site};

use crate::code::{self, Code};
use crate::thread;

/// Calls beyond this are counted and not kept.
const MOST_CALLS: usize = 1 << 20;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The function that is being called, for reports.
    pub(crate) calling: &'static str,
    pub(crate) calls: Vec<Call>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    mistakes: Vec<Misuse>,
    plans: Vec<Plan>,
}

/// One call of a driver's function.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) arguments: String,
    pub(crate) code: i32,
    pub(crate) thread: u64,
}

/// A mistake that the driver itself sees.
#[derive(Clone, Debug)]
struct Misuse {
    kind: &'static str,
    code: Code,
    function: &'static str,
    why: String,
    site: Site,
    thread: u64,
}

/// A call that is to fail.
#[derive(Debug)]
struct Plan {
    name: String,
    /// How many calls still succeed.
    left: u64,
    code: i32,
}

/// A mistake, as a test is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) thread: u64,
}

impl Record {
    pub(crate) fn begin(&mut self, name: &'static str) {
        self.calling = name;
        *self.counts.entry(name).or_insert(0) += 1;
    }

    pub(crate) fn end(&mut self, name: &'static str, arguments: &[(&'static str, u64)], code: i32) {
        if self.calls.len() >= MOST_CALLS {
            return;
        }
        let words: Vec<String> =
            arguments.iter().map(|(name, value)| format!("{name}={value:#x}")).collect();
        let thread = thread::number();
        self.calls.push(Call { name, arguments: words.join(" "), code, thread });
    }

    pub(crate) fn forget_calls(&mut self) {
        self.calls.clear();
        self.counts.clear();
    }

    pub(crate) fn misuse(&mut self, kind: &'static str, code: Code, why: &str, site: Site) {
        let function = self.calling;
        let thread = thread::number();
        self.mistakes.push(Misuse { kind, code, function, why: why.to_owned(), site, thread });
    }

    pub(crate) fn plan(&mut self, name: &str, nth: u64, code: i32) {
        self.plans.push(Plan { name: name.to_owned(), left: nth.saturating_sub(1), code });
    }

    /// Counts a call; the code that it is to fail with, if it is.
    pub(crate) fn planned(&mut self, name: &str) -> Option<i32> {
        let mut code = None;
        self.plans.retain_mut(|plan| {
            if plan.name != name {
                return true;
            }
            if plan.left == 0 {
                code = code.or(Some(plan.code));
                return false;
            }
            plan.left -= 1;
            true
        });
        code
    }

    pub(crate) fn take_mistakes(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.mistakes).into_iter().map(Misuse::told).collect()
    }
}

impl Misuse {
    fn told(self) -> Told {
        let Self { kind, code, function, why, site, thread } = self;
        let name = code::cuda_name(code.0)
            .map_or_else(String::new, |name| format!(", {}", name.to_string_lossy()));
        let text = format!(
            "{why}\n  here       {function} returned {}{name}\n             at {site}",
            code.0
        );
        Told { kind: kind.to_owned(), text, thread }
    }
}

/// What the engine saw, in the same words.
pub(crate) fn told(report: &SimReport) -> Told {
    Told { kind: format!("{:?}", report.kind), text: report.to_string(), thread: report.thread }
}
