//! The interleavings that matter, as a few threads each. The numbers are those of the protocol's
//! own list.

pub(crate) mod consumer;
pub(crate) mod producer;
pub(crate) mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// One scenario with all rules, or with one taken away.
pub(crate) type Scenario = fn();

/// A scenario, and the rules that it cannot do without: the scenario with one of them taken away.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) sound: Scenario,
    pub(crate) without: &'static [(&'static str, Scenario)],
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "release races a request",
        sound: consumer::release_races_a_request::<rules::All>,
        without: &[
            ("release waits", consumer::release_races_a_request::<rules::ReleaseDoesNotWait>),
            ("release ends calls", consumer::release_races_a_request::<rules::ReleaseEndsNothing>),
        ],
    },
    Case {
        name: "cancel raises an error on the same thread",
        sound: consumer::cancel_raises_an_error_on_the_same_thread::<rules::All>,
        without: &[(
            "release knows its thread",
            consumer::cancel_raises_an_error_on_the_same_thread::<rules::ReleaseWaitsForItself>,
        )],
    },
    Case {
        name: "two threads want something at once",
        sound: consumer::two_threads_want_something_at_once::<rules::All>,
        without: &[
            (
                "the caller looks again",
                consumer::two_threads_want_something_at_once::<rules::CallerLooksOnce>,
            ),
            (
                "there is one caller",
                consumer::two_threads_want_something_at_once::<rules::ManyCallers>,
            ),
        ],
    },
    Case {
        name: "the stream is dropped before the schema comes",
        sound: consumer::dropped_before_the_schema_comes::<rules::All>,
        without: &[(
            "cancel is remembered",
            consumer::dropped_before_the_schema_comes::<rules::CancelIsForgotten>,
        )],
    },
    Case {
        name: "the stream is dropped while tasks arrive",
        sound: consumer::dropped_while_tasks_arrive::<rules::All>,
        without: &[(
            "cancel discards",
            consumer::dropped_while_tasks_arrive::<rules::CancelKeepsTasks>,
        )],
    },
    Case {
        name: "a task arrives while the stream is polled",
        sound: consumer::a_task_arrives_while_polled::<rules::All>,
        without: &[(
            "the waker is stored at once",
            consumer::a_task_arrives_while_polled::<rules::WakerIsStoredLate>,
        )],
    },
    Case {
        name: "tasks come before the request returns",
        sound: consumer::tasks_come_before_the_request_returns::<rules::All>,
        without: &[(
            "credits are counted first",
            consumer::tasks_come_before_the_request_returns::<rules::CreditsAreCountedLate>,
        )],
    },
    Case {
        name: "an error wakes somebody who polls at once",
        sound: consumer::an_error_wakes_somebody_who_polls_at_once::<rules::All>,
        without: &[(
            "an error ends calls",
            consumer::an_error_wakes_somebody_who_polls_at_once::<rules::ErrorEndsNothing>,
        )],
    },
    Case {
        name: "a task is extracted after the stream is dropped",
        sound: consumer::a_task_is_extracted_after_the_stream_is_dropped::<rules::All>,
        without: &[(
            "release waits",
            consumer::a_task_is_extracted_after_the_stream_is_dropped::<rules::ReleaseDoesNotWait>,
        )],
    },
    Case {
        name: "an error comes after cancel",
        sound: consumer::an_error_comes_after_cancel::<rules::All>,
        without: &[(
            "release waits",
            consumer::an_error_comes_after_cancel::<rules::ReleaseDoesNotWait>,
        )],
    },
    Case {
        name: "a request comes while the producer falls asleep",
        sound: producer::a_request_comes_while_falling_asleep::<rules::All>,
        without: &[(
            "the waker is stored at once",
            producer::a_request_comes_while_falling_asleep::<rules::WakerIsStoredLate>,
        )],
    },
    Case {
        name: "two requests at once",
        sound: producer::two_requests_at_once::<rules::All>,
        without: &[("credits add up", producer::two_requests_at_once::<rules::LastCreditCounts>)],
    },
    Case {
        name: "a request comes after cancel",
        sound: producer::a_request_comes_after_cancel::<rules::All>,
        without: &[(
            "cancel ends requests",
            producer::a_request_comes_after_cancel::<rules::CancelEndsNothing>,
        )],
    },
    Case {
        name: "a request comes after the end",
        sound: producer::a_request_comes_after_the_end::<rules::All>,
        without: &[(
            "closing ends requests",
            producer::a_request_comes_after_the_end::<rules::ClosingEndsNothing>,
        )],
    },
    Case {
        name: "a request wakes somebody who polls at once",
        sound: producer::a_request_wakes_somebody_who_polls_at_once::<rules::All>,
        without: &[(
            "refused polls come again",
            producer::a_request_wakes_somebody_who_polls_at_once::<rules::RefusedPollsAreLost>,
        )],
    },
];

/// Runs all cases. `survives` explores a scenario and says whether no run of it failed.
pub(crate) fn run_all(survives: impl Fn(Scenario) -> bool) {
    for Case { name, sound, without } in CASES {
        assert!(survives(*sound), "{name}: fails");
        for (rule, scenario) in *without {
            assert!(!survives(*scenario), "{name}: nobody misses that {rule}");
        }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Bell {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::<Self>::default();
        (bell.clone(), Waker::from(bell))
    }

    pub(crate) fn rang(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
