//! What tests learn: the log of calls, whose mistake it was; and calls that are told to fail.

use arrow_device_testkit::process::Child;
use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{call, cuda, hip, started};

#[test]
fn each_call_is_counted_and_logged() {
    let driver = started();
    driver.sim.clear_log();
    let memory = driver.made("cuMemAlloc_v2", &[64]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    let _ = call!(driver, "cuStreamCreate", 0, 0);
    let log = driver.sim.log();
    let told: Vec<(&str, i32)> = log.iter().map(|call| (call.name.as_str(), call.code)).collect();
    assert_eq!(told, [("cuMemAlloc_v2", 0), ("cuMemFree_v2", 0), ("cuStreamCreate", 1)]);
    assert_eq!(log[0].arguments, "bytes=0x40");
    assert_eq!(log[1].arguments, format!("address={memory:#x}"));
    assert_eq!(
        (driver.sim.count("cuMemAlloc_v2"), driver.sim.count("cuInit"), driver.sim.calls()),
        (1, 0, 3)
    );
    driver.finish();
}

#[test]
fn a_call_fails_when_it_is_told_to() {
    let driver = started();
    driver.sim.fail("cuMemAlloc_v2", 2, 719);
    let mut out = 0_usize;
    let codes: Vec<i32> = (0..3).map(|_| call!(driver, "cuMemAlloc_v2", &mut out, 8)).collect();
    assert_eq!(codes, [0, 719, 0]);
}

#[test]
fn a_report_says_whose_thread_it_was_and_is_taken_by_that_one() {
    let driver = started();
    assert_eq!(call!(driver, "cuEventQuery", 3), 400);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(call!(driver, "cuStreamQuery", 0), 201);
            let own = driver.sim.take_reports_of_this_thread();
            assert_eq!((own.len(), own[0].kind.as_str()), (1, "NoContext"));
        });
    });
    let own = driver.sim.take_reports_of_this_thread();
    assert_eq!((own.len(), own[0].kind.as_str()), (1, "UnknownHandle"));
    driver.finish();
}

#[test]
fn each_copy_of_the_library_has_a_machine_of_its_own() {
    let (one, other) = (started(), cuda());
    assert_ne!(one.sim.path(), other.sim.path());
    assert_eq!(one.sim.path().file_name().unwrap(), "libcuda.so.1");
    assert_eq!(hip().sim.path().file_name().unwrap(), "libamdhip64.so.6");
    let event = one.made("cuEventCreate", &[2]);
    assert_eq!(call!(other, "cuInit", 0), 0);
    let mut current = 9_usize;
    assert_eq!((call!(other, "cuCtxGetCurrent", &mut current), current), (0, 0));
    assert_eq!(call!(other, "cuEventQuery", event), 400, "a handle of the other one");
    assert_eq!(other.kinds(), ["UnknownHandle"]);
    assert_eq!(call!(one, "cuEventDestroy_v2", event), 0);
    one.finish();
}

#[test]
fn many_copies_live_in_one_process() {
    let all: Vec<_> = (0..40).map(|_| started()).collect();
    for driver in &all {
        let memory = driver.made("cuMemAlloc_v2", &[1 << 16]);
        assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 1 << 16, 0), 0);
        assert_eq!(call!(driver, "cuStreamSynchronize", 0), 0);
        assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    }
    all.into_iter().for_each(crate::support::Driver::finish);
}

#[test]
fn the_file_goes_with_the_driver() {
    let sim = Simulated::builder(Vendor::Hip).load();
    let path = sim.path().to_owned();
    assert!(path.exists());
    drop(sim);
    assert!(!path.exists());
}

const CHILD: &str = "ARROW_DEVICE_SIMULATED_DRIVER_TEST_CHILD";

/// What the next test runs in a process of its own; nothing otherwise.
#[test]
fn a_child_that_loads_the_library_by_its_path() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    // SAFETY: loading it runs nothing of it.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    // SAFETY: the types are those of the functions.
    let init = unsafe { library.get::<unsafe extern "C" fn(u32) -> i32>(b"cuInit") }.unwrap();
    // SAFETY: the types are those of the functions.
    let count =
        unsafe { library.get::<unsafe extern "C" fn(&mut i32) -> i32>(b"cuDeviceGetCount") };
    let (count, mut devices) = (count.unwrap(), 0);
    // SAFETY: a flag of 0 and a place for a number.
    assert_eq!((unsafe { init(0) }, unsafe { count(&mut devices) }), (0, 0));
    assert_eq!(devices, 3);
}

#[test]
fn a_library_that_nobody_configures_asks_the_environment() {
    let driver = cuda();
    Child::of("record::a_child_that_loads_the_library_by_its_path")
        .env(CHILD, driver.sim.path())
        .env("ARROW_DEVICE_SIMULATED_DRIVER_CONFIG", "devices=3 memory=4096")
        .run()
        .expect_success();
    driver.finish();
}
