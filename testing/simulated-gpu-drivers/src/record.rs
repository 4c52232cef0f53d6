//! What is remembered for tests: each call, each mistake, and the calls that are to fail.

use std::collections::BTreeMap;
use std::fmt;

use arrow_device_sim::{Report as SimReport, Site};

use crate::code::{self, Code};
use crate::thread;

/// Calls beyond this are counted and not kept.
const MOST_CALLS: usize = 1 << 18;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The function that is being called, for reports.
    pub(crate) calling: &'static str,
    pub(crate) calls: Vec<LoggedCall>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// How often something happened that is no call.
    pub(crate) notes: BTreeMap<&'static str, u64>,
    mistakes: Vec<Misuse>,
    plans: Vec<Plan>,
}

/// One call of a driver's function.
#[derive(Clone, Debug)]
pub(crate) struct LoggedCall {
    pub(crate) name: &'static str,
    pub(crate) arguments: String,
    pub(crate) code: i32,
    pub(crate) thread: u64,
}

/// A mistake that the driver itself sees.
#[derive(Clone, Debug)]
pub(crate) struct Misuse {
    kind: &'static str,
    code: Code,
    function: &'static str,
    why: &'static str,
    /// Where what was used came to its end.
    ended: Option<Site>,
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

/// A mistake, to be told. Its text takes long to make, since addresses become lines: nobody makes
/// it unless it is wanted.
#[derive(Clone, Debug)]
pub(crate) enum Mistake {
    OfDriver(Misuse),
    OfEngine(Box<SimReport>),
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
        self.calls.push(LoggedCall { name, arguments: words.join(" "), code, thread });
    }

    pub(crate) fn forget_calls(&mut self) {
        self.calls.clear();
        self.counts.clear();
    }

    /// Counts something that is no call.
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_insert(0) += 1;
    }

    pub(crate) fn misuse(
        &mut self,
        (kind, code, why): (&'static str, Code, &'static str),
        ended: Option<Site>,
        site: Site,
    ) {
        let (function, thread) = (self.calling, thread::number());
        self.mistakes.push(Misuse { kind, code, function, why, ended, site, thread });
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

    pub(crate) fn take_mistakes(&mut self) -> Vec<Mistake> {
        std::mem::take(&mut self.mistakes).into_iter().map(Mistake::OfDriver).collect()
    }
}

impl Mistake {
    /// What was made there is left behind.
    pub(crate) fn left(kind: &'static str, why: &'static str, made: &Site) -> Self {
        let (code, site, ended) = (Code(0), made.clone(), None);
        Self::OfDriver(Misuse { kind, code, function: "it", why, ended, site, thread: 0 })
    }

    pub(crate) fn kind(&self) -> String {
        match self {
            Self::OfDriver(misuse) => misuse.kind.to_owned(),
            Self::OfEngine(report) => format!("{:?}", report.kind),
        }
    }

    pub(crate) fn thread(&self) -> u64 {
        match self {
            Self::OfDriver(misuse) => misuse.thread,
            Self::OfEngine(report) => report.thread,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfDriver(misuse) => misuse.fmt(f),
            Self::OfEngine(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code: Code(code), function, why, ended, site, .. } = self;
        f.write_str(why)?;
        if let Some(ended) = ended {
            write!(f, "\n  destroyed, at {ended}")?;
        }
        let name = code::cuda_name(*code).unwrap_or_default().to_string_lossy();
        write!(f, "\n  here       {function} returned {code}, {name}\n             at {site}")
    }
}
