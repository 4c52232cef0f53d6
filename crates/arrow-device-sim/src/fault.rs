//! Faults on demand: failing calls, lack of memory, and lost devices.

use arrow_device::{Error, ErrorKind};

/// A kind of call that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// [`Driver::allocate`](arrow_device::driver::Driver::allocate): fails as out of memory.
    Allocate,
    /// [`Driver::open_queue`](arrow_device::driver::Driver::open_queue).
    OpenQueue,
    /// [`Driver::make_event`](arrow_device::driver::Driver::make_event).
    MakeEvent,
    /// [`Driver::record`](arrow_device::driver::Driver::record).
    Record,
    /// [`Driver::wait`](arrow_device::driver::Driver::wait).
    Wait,
    /// A copy, a fill or the launch of a kernel.
    Submit,
    /// [`Driver::wait_on_host`](arrow_device::driver::Driver::wait_on_host) and
    /// [`Driver::synchronize`](arrow_device::driver::Driver::synchronize).
    HostWait,
    /// [`Driver::map`](arrow_device::driver::Driver::map).
    Map,
    /// [`Driver::part`](arrow_device::driver::Driver::part).
    Part,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::OpenQueue => "open_queue",
            Self::MakeEvent => "make_event",
            Self::Record => "record",
            Self::Wait => "wait",
            Self::Submit => "submit",
            Self::HostWait => "wait_on_host",
            Self::Map => "map",
            Self::Part => "part",
        }
    }
}

/// The effect of a planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The call fails once.
    FailOnce,
    /// The device is lost in this call.
    LoseDevice,
    /// The call succeeds, and the work that is submitted next fails when its turn comes.
    FailLater,
}

/// The planned faults, and which of them have happened.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    plans: Vec<PlannedFault>,
    /// The calls that were made to fail, in order.
    fired: Vec<&'static str>,
}

#[derive(Debug)]
struct PlannedFault {
    /// The calls that count; `None` counts every call.
    call: Option<Call>,
    /// How many calls still succeed before the fault.
    left: u64,
    effect: Effect,
}

impl Faults {
    pub(crate) fn plan(&mut self, call: Option<Call>, nth: u64, effect: Effect) {
        self.plans.push(PlannedFault { call, left: nth.saturating_sub(1), effect });
    }

    /// Counts a call. Returns the fault that happens in it, if one does.
    pub(crate) fn count(&mut self, call: Call) -> Option<Effect> {
        let mut effect = None;
        self.plans.retain_mut(|plan| {
            if plan.call.is_some_and(|only| only != call) {
                return true;
            }
            if plan.left == 0 {
                effect = effect.or(Some(plan.effect));
                return false;
            }
            plan.left -= 1;
            true
        });
        if effect.is_some() {
            self.fired.push(call.name());
        }
        effect
    }

    pub(crate) fn fired(&self) -> &[&'static str] {
        &self.fired
    }
}

/// Returns the error of a call that was planned to fail.
pub(crate) fn planned(call: Call) -> Error {
    let kind = match call {
        Call::Allocate => ErrorKind::OutOfMemory,
        _ => ErrorKind::Driver,
    };
    Error::new(kind, "this call was told to fail").during(call.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_of_a_kind_fails_once() {
        let mut faults = Faults::default();
        faults.plan(Some(Call::Record), 2, Effect::FailOnce);
        let calls = [Call::Record, Call::Wait, Call::Record, Call::Record];
        let effects = calls.map(|call| faults.count(call));
        assert_eq!(effects, [None, None, Some(Effect::FailOnce), None]);
        assert_eq!(faults.fired(), ["record"]);
    }

    #[test]
    fn without_a_kind_every_call_counts() {
        let mut faults = Faults::default();
        faults.plan(None, 3, Effect::LoseDevice);
        let calls = [Call::Record, Call::Wait, Call::Submit, Call::Submit];
        let effects = calls.map(|call| faults.count(call));
        assert_eq!(effects, [None, None, Some(Effect::LoseDevice), None]);
    }
}
