//! Capture: work becomes a graph, and what may not be done meanwhile is refused and spoils it.

use crate::support::{Driver, call, started};

const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const MERGE: i32 = 902;
const UNMATCHED: i32 = 903;
const UNJOINED: i32 = 904;
const ISOLATION: i32 = 905;
const IMPLICIT: i32 = 906;
const CAPTURED_EVENT: i32 = 907;
const WRONG_THREAD: i32 = 908;

const GLOBAL: i32 = 0;
const OF_THREAD: i32 = 1;
const RELAXED: i32 = 2;

fn capturing(mode: i32) -> (Driver, usize) {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", stream, mode), 0);
    (driver, stream)
}

fn status(driver: &Driver, stream: usize) -> i32 {
    let mut status = 9_i32;
    assert_eq!(call!(driver, "cuStreamIsCapturing", stream, &mut status), 0);
    status
}

fn end(driver: &Driver, stream: usize) -> (i32, bool) {
    let mut graph = 9_usize;
    let code = call!(driver, "cuStreamEndCapture", stream, &mut graph);
    (code, graph != 0)
}

/// Copies of the driver's memory are made each time that the graph is launched, of what is there
/// then, and not while they are captured.
#[test]
fn a_graph_makes_its_copies_when_it_is_launched() {
    let (driver, stream) = capturing(RELAXED);
    let [from, to] = [(); 2].map(|()| driver.made("cuMemAlloc_v2", &[8]));
    assert_eq!(call!(driver, "cuMemcpyDtoDAsync_v2", to, from, 8, stream), 0);
    let mut graph = 0_usize;
    assert_eq!(call!(driver, "cuStreamEndCapture", stream, &mut graph), 0);
    let launched = driver.made("cuGraphInstantiateWithFlags", &[graph as u64, 0]);
    assert_eq!(call!(driver, "cuGraphDestroy", graph), 0);
    for value in [3_u8, 5] {
        assert_eq!(call!(driver, "cuMemsetD8Async", to, 9, 8, stream), 0);
        assert_eq!(call!(driver, "cuMemsetD8Async", from, i32::from(value), 8, stream), 0);
        assert_eq!(call!(driver, "cuGraphLaunch", launched, stream), 0);
        let mut out = [0_u8; 8];
        assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, to, 8, stream), 0);
        assert_eq!(out, [value; 8]);
    }
    // What it reads is looked up when it is launched.
    assert_eq!(call!(driver, "cuMemFree_v2", from), 0);
    assert_eq!(call!(driver, "cuGraphLaunch", launched, stream), 1);
    assert_eq!(driver.kinds(), ["UseAfterFree"]);
    assert_eq!(call!(driver, "cuGraphLaunch", graph, stream), 1);
    assert_eq!(driver.kinds(), ["UnknownHandle"]);
    assert_eq!(call!(driver, "cuGraphExecDestroy", launched), 0);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(call!(driver, "cuMemFree_v2", to), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn captured_work_does_not_run() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, stream), 0);
    assert_eq!(
        (status(&driver, stream), call!(driver, "cuStreamBeginCapture_v2", stream, GLOBAL)),
        (0, 0)
    );
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 2, 8, stream), 0);
    assert_eq!(status(&driver, stream), 1);
    let (mut is, mut id) = (9_i32, 0_u64);
    assert_eq!(call!(driver, "cuStreamGetCaptureInfo_v2", stream, &mut is, &mut id, 0, 0, 0), 0);
    assert!(is == 1 && id != 0);
    assert_eq!(end(&driver, stream), (0, true));
    let mut out = [0_u8; 8];
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 8, stream), 0);
    assert_eq!(out, [1; 8]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn the_host_can_neither_wait_for_a_captured_stream_nor_ask_it() {
    for name in ["cuStreamSynchronize", "cuStreamQuery"] {
        let (driver, stream) = capturing(RELAXED);
        assert_eq!(driver.call(name, &[stream as u64]), UNSUPPORTED);
        assert_eq!(driver.kinds(), ["Capture"]);
        assert_eq!(status(&driver, stream), 2, "spoilt");
        assert_eq!(
            call!(driver, "cuEventRecord", driver.made("cuEventCreate", &[2]), stream),
            INVALIDATED
        );
        assert_eq!(end(&driver, stream), (INVALIDATED, false));
        assert_eq!(driver.call(name, &[stream as u64]), 0, "all is well again");
    }
}

#[test]
fn an_event_that_was_captured_is_not_for_the_host() {
    let (driver, stream) = capturing(GLOBAL);
    let event = driver.made("cuEventCreate", &[2]);
    assert_eq!(call!(driver, "cuEventRecord", event, stream), 0);
    assert_eq!(call!(driver, "cuEventQuery", event), CAPTURED_EVENT);
    assert_eq!(call!(driver, "cuEventSynchronize", event), CAPTURED_EVENT);
    assert_eq!(driver.kinds(), ["Capture"; 2]);
    assert_eq!(end(&driver, stream).0, INVALIDATED);
}

#[test]
fn calls_that_may_wait_are_refused_as_the_modes_say() {
    // The mode of the capture, whether another thread calls, its own mode, and what comes of it.
    for (mode, elsewhere, own, code) in [
        (GLOBAL, false, GLOBAL, UNSUPPORTED),
        (GLOBAL, true, GLOBAL, UNSUPPORTED),
        (GLOBAL, true, OF_THREAD, 0),
        (GLOBAL, false, OF_THREAD, UNSUPPORTED),
        (GLOBAL, false, RELAXED, 0),
        (OF_THREAD, false, GLOBAL, UNSUPPORTED),
        (OF_THREAD, true, GLOBAL, 0),
        (RELAXED, false, GLOBAL, 0),
    ] {
        let (driver, stream) = capturing(mode);
        let context = driver.context(0);
        let allocate = || {
            let (mut own, mut out) = (own, 0_usize);
            assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
            assert_eq!(call!(driver, "cuThreadExchangeStreamCaptureMode", &mut own), 0);
            let code = call!(driver, "cuMemAlloc_v2", &mut out, 8);
            assert_eq!(call!(driver, "cuThreadExchangeStreamCaptureMode", &mut own), 0);
            code
        };
        let got = if elsewhere {
            std::thread::scope(|scope| scope.spawn(allocate).join().unwrap())
        } else {
            allocate()
        };
        assert_eq!(got, code, "{mode} {elsewhere} {own}");
        assert_eq!(end(&driver, stream).0, if code == 0 { 0 } else { INVALIDATED });
        assert_eq!(driver.kinds().len(), usize::from(code != 0));
    }
}

#[test]
fn the_default_stream_does_not_become_part_of_a_capture() {
    let driver = started();
    let blocking = driver.made("cuStreamCreate", &[0]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, 0), 0);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", 0, GLOBAL), UNSUPPORTED);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", blocking, RELAXED), 0);
    let mut status = 9_i32;
    assert_eq!(call!(driver, "cuStreamIsCapturing", 0, &mut status), IMPLICIT);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, 0), IMPLICIT);
    assert_eq!(end(&driver, blocking).0, INVALIDATED);
    assert!(driver.kinds().iter().all(|kind| kind == "Capture"));
}

#[test]
fn a_stream_that_waits_for_a_captured_event_is_captured_and_has_to_be_joined() {
    for joined in [true, false] {
        let (driver, stream) = capturing(RELAXED);
        let forked = driver.made("cuStreamCreate", &[1]);
        let (out, back) = (driver.made("cuEventCreate", &[2]), driver.made("cuEventCreate", &[2]));
        assert_eq!(call!(driver, "cuEventRecord", out, stream), 0);
        assert_eq!(call!(driver, "cuStreamWaitEvent", forked, out, 0), 0);
        assert_eq!(status(&driver, forked), 1);
        assert_eq!(end(&driver, forked).0, UNMATCHED);
        assert_eq!(call!(driver, "cuEventRecord", back, forked), 0);
        if joined {
            assert_eq!(call!(driver, "cuStreamWaitEvent", stream, back, 0), 0);
        }
        assert_eq!(end(&driver, stream).0, if joined { 0 } else { UNJOINED });
        assert_eq!(status(&driver, forked), 0);
        assert!(driver.kinds().is_empty());
    }
}

#[test]
fn a_capture_depends_on_nothing_outside_of_it() {
    let (driver, stream) = capturing(RELAXED);
    let (other, event) = (driver.made("cuStreamCreate", &[1]), driver.made("cuEventCreate", &[2]));
    assert_eq!(call!(driver, "cuEventRecord", event, other), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", stream, event, 0), ISOLATION);
    assert_eq!(end(&driver, stream).0, INVALIDATED);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", stream, RELAXED), 0);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", other, RELAXED), 0);
    assert_eq!(call!(driver, "cuEventRecord", event, other), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", stream, event, 0), MERGE);
    assert_eq!(driver.kinds(), ["Capture"; 2]);
}

#[test]
fn a_capture_ends_on_its_stream_and_thread() {
    let (driver, stream) = capturing(OF_THREAD);
    let context = driver.context(0);
    let code = std::thread::scope(|scope| {
        let elsewhere = || {
            assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
            end(&driver, stream).0
        };
        scope.spawn(elsewhere).join().unwrap()
    });
    assert_eq!(code, WRONG_THREAD);
    assert_eq!(
        call!(driver, "cuStreamBeginCapture_v2", stream, GLOBAL),
        1,
        "it is captured already"
    );
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2", stream, 3), 1, "no such mode");
    assert_eq!(end(&driver, stream), (0, true));
    assert_eq!(end(&driver, stream), (1, false));
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}
