//! Each code that a wrong call of CUDA gets. The sentence of the manual is named beside it, in our
//! words.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, cuda, started, started_with, with};

const INVALID_VALUE: i32 = 1;
const NOT_INITIALIZED: i32 = 3;
const NO_DEVICE: i32 = 100;
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;
const PEER_ACCESS_UNSUPPORTED: i32 = 217;
const INVALID_HANDLE: i32 = 400;
const NOT_FOUND: i32 = 500;
const NOT_READY: i32 = 600;
const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
const NOT_PERMITTED: i32 = 800;
const NOT_SUPPORTED: i32 = 801;

fn two_devices() -> Driver {
    started_with(Simulated::builder(Vendor::Cuda).devices(2).peers(true))
}

#[test]
fn initialising_takes_no_flags_and_needs_a_device() {
    let driver = with(Simulated::builder(Vendor::Cuda).devices(0));
    assert_eq!(call!(driver, "cuInit", 1), INVALID_VALUE);
    assert_eq!(call!(driver, "cuInit", 0), NO_DEVICE);
    let mut count = 0_i32;
    assert_eq!(call!(driver, "cuDeviceGetCount", &mut count), NOT_INITIALIZED);
    assert_eq!(driver.kinds(), ["NotInitialized"]);
}

#[test]
fn before_initialising_all_but_versions_and_errors_is_refused() {
    let driver = cuda();
    for name in FUNCTIONS_THAT_NEED_INITIALISING {
        let mut out = [0_u64; 16];
        let words = [out.as_mut_ptr() as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(driver.call(name, &words), NOT_INITIALIZED, "{name}");
    }
    assert!(driver.kinds().iter().all(|kind| kind == "NotInitialized"));
}

const FUNCTIONS_THAT_NEED_INITIALISING: &[&str] = &[
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetDevice",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemcpyAsync",
    "cuMemcpyPeerAsync",
    "cuMemcpyBatchAsync",
    "cuMemcpyBatchAsync_v2",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamGetCtx",
    "cuStreamGetDevice",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuMemGetAddressRange_v2",
    "cuMemHostGetDevicePointer_v2",
    "cuStreamIsCapturing",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuThreadExchangeStreamCaptureMode",
    "cuLaunchHostFunc",
    "cuModuleLoadData",
];

/// What needs a context is told so on a thread that has none, and the mistake is reported.
#[test]
fn without_a_current_context_work_is_refused_and_reported() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let event = driver.made("cuEventCreate", &[2]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    let mut out = 0_usize;
    assert_eq!(call!(driver, "cuCtxSetCurrent", 0), 0);
    let codes = [
        call!(driver, "cuMemAlloc_v2", &mut out, 8),
        call!(driver, "cuMemFree_v2", memory),
        call!(driver, "cuMemcpyDtoDAsync_v2", memory, memory, 0, stream),
        call!(driver, "cuMemsetD8Async", memory, 1, 8, stream),
        call!(driver, "cuStreamCreate", &mut out, 1),
        call!(driver, "cuStreamSynchronize", stream),
        call!(driver, "cuStreamQuery", stream),
        call!(driver, "cuStreamWaitEvent", stream, event, 0),
        call!(driver, "cuEventCreate", &mut out, 2),
        call!(driver, "cuEventRecord", event, stream),
        call!(driver, "cuEventSynchronize", event),
        call!(driver, "cuCtxSynchronize"),
        call!(driver, "cuCtxGetDevice", &mut out),
        call!(driver, "cuStreamGetCtx", 0, &mut out),
    ];
    assert_eq!(codes, [INVALID_CONTEXT; 14]);
    assert_eq!(driver.kinds(), ["NoContext"; 14]);
    // These know their context.
    assert_eq!(call!(driver, "cuEventQuery", event), 0);
    assert_eq!(call!(driver, "cuStreamGetCtx", stream, &mut out), 0);
    assert_eq!(out, driver.context(0));
    assert!(driver.kinds().is_empty());
}

#[test]
fn contexts_are_a_stack_of_each_thread() {
    let driver = two_devices();
    let (one, other) = (driver.context(0), driver.context(1));
    let mut out = 0_usize;
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    assert_eq!((call!(driver, "cuCtxGetDevice", &mut out), out), (0, 1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut here = 9_usize;
            assert_eq!((call!(driver, "cuCtxGetCurrent", &mut here), here), (0, 0));
            assert_eq!(call!(driver, "cuCtxPopCurrent_v2", &mut here), INVALID_CONTEXT);
        });
    });
    assert_eq!(driver.kinds(), ["NoContext"]);
    assert_eq!((call!(driver, "cuCtxPopCurrent_v2", &mut out), out), (0, other));
    assert_eq!((call!(driver, "cuCtxGetCurrent", &mut out), out), (0, one));
    assert_eq!(call!(driver, "cuCtxSetCurrent", other + 1), INVALID_CONTEXT);
    assert_eq!(driver.kinds(), ["UnknownHandle"]);
}

/// What nanoarrow's own tests rely on is refused unless it is asked for.
#[test]
fn a_lenient_driver_waits_without_a_context_and_pins_nothing() {
    for (is_lenient, codes) in [(false, [INVALID_VALUE, INVALID_CONTEXT]), (true, [0, 0])] {
        let builder = Simulated::builder(Vendor::Cuda).lenient(is_lenient);
        let driver = crate::support::started_with(builder);
        let (context, stream) = (driver.context(0), driver.made("cuStreamCreate", &[1]));
        let mut out = 0_usize;
        let pinned = call!(driver, "cuMemAllocHost_v2", &mut out, 0);
        assert_eq!(call!(driver, "cuCtxSetCurrent", 0), 0);
        assert_eq!([pinned, call!(driver, "cuStreamSynchronize", stream)], codes);
        assert_eq!(driver.kinds().len(), usize::from(!is_lenient));
        assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
        assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
        assert!(pinned != 0 || call!(driver, "cuMemFreeHost", out) == 0);
        driver.finish();
    }
}

/// A context beside the primary one has streams and events of its own.
#[test]
fn a_context_that_a_program_makes_is_another_one() {
    let driver = started();
    let primary = driver.context(0);
    let [stream, event] = [("cuStreamCreate", 1), ("cuEventCreate", 2)]
        .map(|(name, flags)| driver.made(name, &[flags]));
    let made = driver.made("cuCtxCreate_v4", &[0, 0, 0]);
    let mut out = 0_usize;
    assert_eq!((call!(driver, "cuCtxGetCurrent", &mut out), out), (0, made));
    let theirs = driver.made("cuStreamCreate", &[1]);
    assert_eq!((call!(driver, "cuStreamGetCtx", theirs, &mut out), out), (0, made));
    assert_eq!((call!(driver, "cuStreamGetCtx", stream, &mut out), out), (0, primary));
    // An event of the one is recorded on no stream of the other, which waits for it all the same.
    assert_eq!(call!(driver, "cuEventRecord", event, theirs), INVALID_HANDLE);
    assert_eq!(driver.kinds(), ["WrongContext"]);
    assert_eq!(call!(driver, "cuEventRecord", event, stream), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", theirs, event, 0), 0);
    assert_eq!(call!(driver, "cuCtxDestroy_v2", made), 0);
    assert_eq!((call!(driver, "cuCtxGetCurrent", &mut out), out), (0, primary));
    assert_eq!(call!(driver, "cuStreamQuery", theirs), INVALID_HANDLE);
    assert_eq!(call!(driver, "cuCtxSetCurrent", made), INVALID_CONTEXT);
    assert_eq!(driver.kinds(), ["StreamDestroyed", "ContextDestroyed"]);
    assert_eq!(call!(driver, "cuEventDestroy_v2", event), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn a_context_that_nobody_retained_cannot_be_current() {
    let driver = with(Simulated::builder(Vendor::Cuda).devices(1));
    assert_eq!(call!(driver, "cuInit", 0), 0);
    let (mut flags, mut active) = (9_u32, 9_i32);
    assert_eq!(call!(driver, "cuDevicePrimaryCtxGetState", 0, &mut flags, &mut active), 0);
    assert_eq!((flags, active), (0, 0));
    let context = driver.context(0);
    assert_eq!(call!(driver, "cuDevicePrimaryCtxGetState", 0, &mut flags, &mut active), 0);
    assert_eq!(active, 1);
    assert_eq!(call!(driver, "cuDevicePrimaryCtxRelease_v2", 0), 0);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", context), INVALID_CONTEXT);
    assert_eq!(call!(driver, "cuDevicePrimaryCtxRelease_v2", 0), INVALID_CONTEXT);
    assert_eq!(driver.kinds(), ["UnknownHandle"]);
}

#[test]
fn a_device_that_is_not_there_is_invalid() {
    let driver = started();
    let mut out = 0_usize;
    for number in [-1, 1] {
        assert_eq!(call!(driver, "cuDeviceGet", &mut out, number), INVALID_DEVICE);
        assert_eq!(call!(driver, "cuDeviceTotalMem_v2", &mut out, number), INVALID_DEVICE);
        assert_eq!(call!(driver, "cuDevicePrimaryCtxRetain", &mut out, number), INVALID_DEVICE);
        assert_eq!(call!(driver, "cuDeviceGetAttribute", &mut out, 83, number), INVALID_DEVICE);
    }
    assert_eq!(call!(driver, "cuDeviceGetAttribute", &mut out, 9999, 0), INVALID_VALUE);
    driver.finish();
}

#[test]
fn null_results_and_unknown_flags_are_invalid_values() {
    let driver = started();
    let mut out = 0_usize;
    let codes = [
        call!(driver, "cuDriverGetVersion", 0),
        call!(driver, "cuDeviceGetCount", 0),
        call!(driver, "cuMemAlloc_v2", 0, 8),
        call!(driver, "cuMemAlloc_v2", &mut out, 0),
        call!(driver, "cuMemHostAlloc", &mut out, 8, 64),
        call!(driver, "cuMemAllocManaged", &mut out, 8, 0),
        call!(driver, "cuMemAllocManaged", &mut out, 8, 3),
        call!(driver, "cuStreamCreate", &mut out, 2),
        call!(driver, "cuStreamCreate", 0, 0),
        call!(driver, "cuEventCreate", &mut out, 64),
        // Between processes, but with time.
        call!(driver, "cuEventCreate", &mut out, 4),
        call!(driver, "cuEventCreate", 0, 2),
        call!(driver, "cuLaunchHostFunc", 0, 0, 0),
    ];
    assert_eq!(codes, [INVALID_VALUE; 13]);
    driver.finish();
}

#[test]
fn handles_that_are_none_or_were_destroyed_are_invalid() {
    let driver = started();
    let (stream, event) = (driver.made("cuStreamCreate", &[0]), driver.made("cuEventCreate", &[2]));
    let codes = [
        call!(driver, "cuStreamSynchronize", 0x1234),
        call!(driver, "cuStreamDestroy_v2", event),
        call!(driver, "cuEventQuery", stream),
        call!(driver, "cuEventRecord", 0, stream),
        call!(driver, "cuStreamWaitEvent", stream, stream, 0),
    ];
    assert_eq!(codes, [INVALID_HANDLE; 5]);
    assert_eq!(driver.kinds(), ["UnknownHandle"; 5]);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", 1), INVALID_HANDLE, "not the default stream");
    assert_eq!(call!(driver, "cuEventDestroy_v2", event), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    let codes = [
        call!(driver, "cuEventDestroy_v2", event),
        call!(driver, "cuEventQuery", event),
        call!(driver, "cuEventSynchronize", event),
        call!(driver, "cuStreamWaitEvent", 0, event, 0),
        call!(driver, "cuStreamQuery", stream),
        call!(driver, "cuStreamDestroy_v2", stream),
    ];
    assert_eq!(codes, [INVALID_HANDLE; 6]);
    let kinds = driver.kinds();
    assert_eq!(kinds[..4], ["EventDestroyed"; 4]);
    assert_eq!(kinds[4..], ["StreamDestroyed"; 2]);
}

#[test]
fn an_event_of_another_context_is_recorded_nowhere_and_waited_for_anywhere() {
    let driver = two_devices();
    let stream = driver.made("cuStreamCreate", &[1]);
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    let (event, near) = (driver.made("cuEventCreate", &[2]), driver.made("cuStreamCreate", &[1]));
    assert_eq!(call!(driver, "cuEventRecord", event, stream), INVALID_HANDLE);
    assert_eq!(driver.kinds(), ["WrongContext"]);
    assert_eq!(call!(driver, "cuEventRecord", event, near), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", stream, event, 0), 0);
    assert_eq!(call!(driver, "cuEventSynchronize", event), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", stream, event, 2), INVALID_VALUE);
    let mut device = 9_i32;
    assert_eq!((call!(driver, "cuStreamGetDevice", stream, &mut device), device), (0, 0));
    assert!(driver.kinds().is_empty());
}

#[test]
fn a_kernel_runs_on_streams_of_the_current_context_only() {
    let driver = two_devices();
    let stream = driver.made("cuStreamCreate", &[1]);
    let module = driver.made("cuModuleLoadData", &[c"first second".as_ptr() as u64]);
    let function = driver.made("cuModuleGetFunction", &[module as u64, c"second".as_ptr() as u64]);
    let mut out = 0_usize;
    assert_eq!(
        call!(driver, "cuModuleGetFunction", &mut out, module, c"third".as_ptr()),
        NOT_FOUND
    );
    let launch =
        |grid: u32| call!(driver, "cuLaunchKernel", function, grid, 1, 1, 1, 1, 1, 0, stream, 0, 0);
    assert_eq!((launch(1), launch(0)), (0, INVALID_VALUE));
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxSetCurrent", other), 0);
    assert_eq!(launch(1), INVALID_HANDLE);
    assert_eq!(driver.kinds(), ["WrongContext"]);
    assert_eq!(call!(driver, "cuModuleUnload", module), 0);
    assert_eq!(call!(driver, "cuModuleUnload", module), INVALID_HANDLE);
}

#[test]
fn peer_access_is_given_once_between_two_devices() {
    let driver = two_devices();
    let (one, other) = (driver.context(0), driver.context(1));
    let mut can = 9_i32;
    assert_eq!((call!(driver, "cuDeviceCanAccessPeer", &mut can, 0, 1), can), (0, 1));
    assert_eq!((call!(driver, "cuDeviceCanAccessPeer", &mut can, 0, 0), can), (0, 0));
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", other, 1), INVALID_VALUE);
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", one, 0), INVALID_DEVICE);
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", other, 0), 0);
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", other, 0), PEER_ACCESS_ALREADY_ENABLED);
    driver.finish();
    let apart = started_with(Simulated::builder(Vendor::Cuda).devices(2));
    let other = apart.context(1);
    assert_eq!(call!(apart, "cuCtxEnablePeerAccess", other, 0), PEER_ACCESS_UNSUPPORTED);
    apart.finish();
}

#[test]
fn what_the_device_cannot_do_is_not_supported() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).managed(false).pools(false));
    let (mut out, mut has) = (0_usize, 9_i32);
    assert_eq!(call!(driver, "cuMemAllocManaged", &mut out, 8, 1), NOT_SUPPORTED);
    assert_eq!(call!(driver, "cuMemAllocAsync", &mut out, 8, 0), NOT_SUPPORTED);
    assert_eq!(call!(driver, "cuDeviceGetDefaultMemPool", &mut out, 0), NOT_SUPPORTED);
    for attribute in [83, 115] {
        assert_eq!(call!(driver, "cuDeviceGetAttribute", &mut has, attribute, 0), 0);
        assert_eq!(has, 0);
    }
    driver.finish();
}

#[test]
fn a_question_is_answered_with_not_ready_until_the_device_makes_progress() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).patience(3));
    let stream = driver.made("cuStreamCreate", &[1]);
    let event = driver.made("cuEventCreate", &[2]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuEventQuery", event), 0, "never recorded");
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, stream), 0);
    assert_eq!(call!(driver, "cuEventRecord", event, stream), 0);
    let codes: Vec<i32> = (0..4).map(|_| call!(driver, "cuEventQuery", event)).collect();
    assert_eq!(codes, [NOT_READY, NOT_READY, NOT_READY, 0]);
    assert_eq!(call!(driver, "cuStreamQuery", stream), 0);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuEventDestroy_v2", event), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn a_function_on_the_host_must_not_call_the_driver() {
    struct Seen {
        driver: Driver,
        code: std::sync::atomic::AtomicI32,
    }
    unsafe extern "C" fn ask(seen: *mut std::ffi::c_void) {
        // SAFETY: the test passes this, and waits.
        let seen = unsafe { &*seen.cast::<Seen>() };
        let code = call!(seen.driver, "cuStreamQuery", 0);
        seen.code.store(code, std::sync::atomic::Ordering::Relaxed);
    }
    let seen = Seen { driver: started(), code: 9.into() };
    let run: unsafe extern "C" fn(*mut std::ffi::c_void) = ask;
    let code = call!(seen.driver, "cuLaunchHostFunc", 0, run as usize, &raw const seen);
    assert_eq!(code, 0);
    assert_eq!(seen.code.load(std::sync::atomic::Ordering::Relaxed), 9, "not yet");
    assert_eq!(call!(seen.driver, "cuStreamSynchronize", 0), 0);
    assert_eq!(seen.code.load(std::sync::atomic::Ordering::Relaxed), NOT_PERMITTED);
    assert_eq!(seen.driver.kinds(), ["CallInCallback"]);
}

#[test]
fn errors_have_names() {
    let driver = cuda();
    for (code, name) in [
        (0, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    ] {
        let mut text = std::ptr::null::<std::ffi::c_char>();
        assert_eq!(call!(driver, "cuGetErrorName", code, &mut text), 0);
        // SAFETY: the driver's names end with a zero and stay.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap(), name);
        assert_eq!(call!(driver, "cuGetErrorString", code, &mut text), 0);
        assert!(!text.is_null());
    }
    let mut text = std::ptr::dangling::<std::ffi::c_char>();
    assert_eq!(call!(driver, "cuGetErrorName", 4711, &mut text), INVALID_VALUE);
    assert!(text.is_null());
    driver.finish();
}

#[test]
fn a_lost_device_says_so_in_every_call_and_leaves_the_other_alone() {
    let driver = two_devices();
    let stream = driver.made("cuStreamCreate", &[1]);
    let event = driver.made("cuEventCreate", &[2]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, stream), 0);
    assert_eq!(call!(driver, "cuEventRecord", event, stream), 0);
    driver.sim.lose(0, 700);
    let mut out = 0_usize;
    let codes = [
        call!(driver, "cuStreamSynchronize", stream),
        call!(driver, "cuEventQuery", event),
        call!(driver, "cuMemAlloc_v2", &mut out, 8),
        call!(driver, "cuMemcpyDtoDAsync_v2", memory, memory + 4, 4, stream),
        call!(driver, "cuEventRecord", event, stream),
        call!(driver, "cuDevicePrimaryCtxRetain", &mut out, 0),
    ];
    assert_eq!(codes, [700; 6]);
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    let near = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuMemFree_v2", near), 0);
    driver.finish();
}
