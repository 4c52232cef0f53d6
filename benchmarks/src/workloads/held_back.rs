//! What is asked of a driver about memory that is held back until a queue has passed it.

use arrow_device::deferred::release_finished;
use arrow_device_testkit::manual::Manual;

use crate::case::Case;
use crate::meter::{Counted, Meter};

/// Questions whether an event has passed, or a queue is idle, while things are held back.
const TO_HOLD: &str = "questions to hold back";
/// Questions whether an event has passed, or a queue is idle, while things are released whose work
/// is complete.
const TO_RELEASE: &str = "questions to release";

pub(super) const COUNTED: &[Counted] = &[
    Counted {
        name: "held back on one queue/things/1000",
        promised: &[(TO_HOLD, 2_000), (TO_RELEASE, 1_001)],
        run: |meter| hold_back(1_000, meter),
    },
    Counted {
        name: "held back on one queue/things/10000",
        promised: &[(TO_HOLD, 20_000), (TO_RELEASE, 10_001)],
        run: |meter| hold_back(10_000, meter),
    },
    Counted {
        name: "held back on one queue/things/100000",
        promised: &[(TO_HOLD, 200_000), (TO_RELEASE, 100_001)],
        run: |meter| hold_back(100_000, meter),
    },
];

/// Nothing is timed: what others do in the place of this is not comparable.
pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}

/// Holds things back, each behind work of its own, then completes all work and releases them.
fn hold_back(things: usize, meter: &mut Meter) {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    for _ in 0..things {
        manual.submit(&queue);
        queue.keep_until_done(());
    }
    let to_hold = manual.questions();
    manual.complete(&queue);
    assert_eq!(release_finished(), things);
    meter.note(TO_HOLD, to_hold);
    meter.note(TO_RELEASE, manual.questions() - to_hold);
}
