//! The program for machines with a GPU, run on the simulated drivers: its report says that all
//! checks passed, and is JSON.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use simulated_gpu_drivers::{Simulated, Vendor};

#[test]
fn the_report_says_that_all_checks_passed() {
    let cuda = Simulated::builder(Vendor::Cuda).load();
    let hip = Simulated::builder(Vendor::Hip).load();
    let folder = std::env::temp_dir().join(format!("arrow-device-gpu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_arrow-device-gpu-hardware"))
        .arg(&path)
        .arg("--quick")
        .env("ARROW_DEVICE_CUDA_LIBRARY", cuda.path())
        .env("ARROW_DEVICE_HIP_LIBRARY", hip.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    for part in ["\"failures\": 0", "suite on cuda:0", "suite on rocm_host:0", "of_link_rate"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    // Five kinds of memory, each with a suite; for each runtime four checks of exchange, two of
    // types, one of speed.
    assert_eq!(report.matches("\"passed\": true").count(), 5 + 2 * 7, "{report}");
    // The links; and of each shape two sources, the way back, within the device, and once more
    // where nothing is kept.
    assert_eq!(report.matches("\"gigabytes_per_second\"").count(), 2 * (3 + 2 * 5), "{report}");
    assert_eq!(report.matches("\"of_link_rate\"").count(), 2 * 2 * 4, "{report}");
    assert_eq!(report.matches("\"times_call_per_buffer\"").count(), 2 * 2 * 2, "{report}");
    assert_eq!(report.matches('{').count(), report.matches('}').count());
}
