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

/// Keeps a queue at work for longer than a copy does.
const BUSY: &str = "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
        var value = data[at.x];
        for (var turn = 0u; turn < 50000u; turn++) { value = value * 1664525u + 1013904223u; }
        data[at.x] = value;
    }";

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
        let busy = application.buffer(&[1; 4096], wgpu::BufferUsages::STORAGE);
        let occupy = |_: &arrow_device::Queue| {
            application.run(BUSY, &[busy.as_entire_binding()], 16);
        };
        let suite = Suite::new(&device).over([]).slow(&occupy);
        let suite = suite.calling_back(&call_back).losing(&lose);
        let report = suite.run();
        report.assert();
        println!("{report}");
    });
}
