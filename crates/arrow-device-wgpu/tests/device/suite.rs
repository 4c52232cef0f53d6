//! The conformance suite, with its numbers pinned.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_wgpu::Opening;

use crate::support;

// Requirement: SYS-1, ARR-5, ARR-7, ARR-16, ARR-20
#[test]
fn a_device_passes() {
    let Some((device, _)) = support::bench() else { return };
    let report = Suite::new(&device).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * 1598 + 28);
}

type Call = Arc<dyn Fn() + Send + Sync>;

/// A callback of the application's, which is run by polls until it is taken away.
fn run_again(queue: &wgpu::Queue, call: &Arc<Mutex<Option<Call>>>) {
    let (again, call) = (queue.clone(), call.clone());
    queue.on_submitted_work_done(move || {
        let now = call.lock().unwrap().clone();
        if let Some(now) = now {
            now();
            run_again(&again, &call);
        }
    });
}

/// Callbacks of the application run while the library asks, and the device is lost by the flag.
#[test]
fn callbacks_run_without_a_lock_and_a_flag_tells_of_the_loss() {
    process::alone(|| {
        let Some(application) = support::application() else { return };
        let is_lost = Arc::new(AtomicBool::new(false));
        let opening = Opening::new(&application.device, &application.queue);
        let device = opening.with_loss(is_lost.clone()).open().unwrap();
        let call: Arc<Mutex<Option<Call>>> = Arc::default();
        let call_back = |given: Option<Call>| {
            let is_new = given.is_some();
            *call.lock().unwrap() = given;
            if is_new {
                run_again(&application.queue, &call);
            }
        };
        let lose = || is_lost.store(true, SeqCst);
        let suite = Suite::new(&device).over([]).calling_back(&call_back).losing(&lose);
        let report = suite.run();
        report.assert();
        println!("{report}");
    });
}
