//! The program for machines with a GPU, run on the simulated drivers: its report says that all
//! checks passed, and is JSON; and each part finds what is planted for it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use simulated_gpu_drivers::{Simulated, Vendor};

/// Runs the program; returns whether it found nothing, and the report.
fn run(arguments: &[&str], config: &str) -> (bool, String) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let cuda = Simulated::builder(Vendor::Cuda).load();
    let hip = Simulated::builder(Vendor::Hip).load();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder =
        std::env::temp_dir().join(format!("arrow-device-gpu-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_arrow-device-gpu-hardware"))
        .arg(&path)
        .arg("--quick")
        .args(arguments)
        .env("ARROW_DEVICE_CUDA_LIBRARY", cuda.path())
        .env("ARROW_DEVICE_HIP_LIBRARY", hip.path())
        // Where cudarc finds it.
        .env("LD_LIBRARY_PATH", cuda.path().parent().unwrap())
        .env("ARROW_DEVICE_SIMULATED_DRIVER_CONFIG", config)
        .output()
        .unwrap();
    let report = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("failures; the report is in"), "{said} {output:?}");
    (output.status.success(), report)
}

#[test]
fn the_report_says_that_all_checks_passed() {
    let (is_passed, report) = run(&[], "");
    assert!(is_passed, "{report}");
    for part in ["\"failures\": 0", "suite on cuda:0", "suite on rocm_host:0", "of_link_rate"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    // Five kinds of memory, each with a suite; for each runtime four checks of exchange, two of
    // types, one of speed, four that need the driver by hand, two of other processes, no fault, two
    // faults and their count; and cudarc.
    assert_eq!(report.matches("\"passed\": true").count(), 5 + 2 * (7 + 4 + 2 + 4) + 1, "{report}");
    assert_eq!(report.matches("\"per_second\"").count(), 2 * 2, "{report}");
    assert!(report.contains("the suite sees 2 of 2 faults"), "{report}");
    // The links; and of each shape two sources, the way back, within the device, and once more
    // where nothing is kept.
    assert_eq!(report.matches("\"gigabytes_per_second\"").count(), 2 * (3 + 2 * 5), "{report}");
    assert_eq!(report.matches("\"of_link_rate\"").count(), 2 * 2 * 4, "{report}");
    assert_eq!(report.matches("\"times_call_per_buffer\"").count(), 2 * 2 * 2, "{report}");
    assert_eq!(report.matches('{').count(), report.matches('}').count());
}

#[test]
fn several_devices_exchange_with_and_without_access_to_peers() {
    for (peers, said) in [("peers=1", "0 to 1, peers"), ("peers=0", "0 to 1, no peers")] {
        let config = format!("devices=2 {peers}");
        let (is_passed, report) = run(&["--only", "peers"], &config);
        assert!(is_passed && report.matches(said).count() == 2, "{report}");
        for row in ["one large copy to another device", "\"way\": \"to another device\""] {
            assert!(report.contains(row), "{report}");
        }
        let (is_passed, report) = run(&["--only", "contexts"], &config);
        assert!(is_passed && report.matches("of another device").count() == 2, "{report}");
    }
    let (is_passed, report) = run(&["--only", "peers"], "devices=1");
    assert!(is_passed && report.contains("there is one device only"), "{report}");
}

/// A call of the driver that does nothing, or fails, is found by the part that is about it.
#[test]
fn each_part_finds_what_is_planted_for_it() {
    for (part, config, complaint) in [
        ("contexts", "fail=cuEventRecord:1:0", "unwrap_err"),
        ("graphs", "fail=cuMemcpyDtoDAsync_v2:1:0", "not what was imported"),
        ("awaits", "fail=cuEventRecord:1:719", "CUDA_ERROR_LAUNCH_FAILED"),
        ("peers", "devices=2 peers=1 fail=cuMemcpyPeerAsync:1:0", "0 and 1"),
        ("cudarc", "fail=cuMemcpyHtoDAsync_v2:1:0", "left == right"),
        ("share", "fail=cuMemcpyHtoDAsync_v2:1:0", "1 rows"),
        ("share", "fail=cuMemImportFromShareableHandle:1:1", "of as much memory"),
        ("faults", "fail=cuEventRecord:1:400", "what is no fault"),
    ] {
        let (is_passed, report) = run(&["--only", part], config);
        assert!(!is_passed && report.contains(complaint), "{part}: {report}");
        assert!(report.contains("\"passed\": false"), "{part}: {report}");
    }
}
