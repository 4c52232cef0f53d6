//! Right programs, and how wrong ones are told.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{call, cuda, started};

#[test]
fn bytes_go_to_the_device_and_come_back() {
    let driver = started();
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    let stream = driver.made("cuStreamCreate", &[1]);
    let (bytes, mut back) = ([7_u8; 16], [0_u8; 16]);
    assert_eq!(call!(driver, "cuMemcpyHtoDAsync_v2", memory, &bytes[..], 16, stream), 0);
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut back, memory, 16, stream), 0);
    assert_eq!(back, bytes);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn a_stream_that_does_not_wait_is_reported_with_the_callers_line() {
    let driver = started();
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    let (one, other) = (driver.made("cuStreamCreate", &[1]), driver.made("cuStreamCreate", &[1]));
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 16, one), 0);
    assert_eq!(driver.sim.kernel("sum").reads(memory as u64, 16).launch(other as u64, |_| {}), 0);
    let reports = driver.sim.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].kind, "UnorderedRead");
    assert!(reports[0].text().contains("tests/driver/support.rs"), "{}", reports[0].text());
}

#[test]
fn without_initialising_nearly_nothing_works() {
    let driver = cuda();
    let mut count = 0_i32;
    assert_eq!(call!(driver, "cuDeviceGetCount", &mut count), 3);
    assert_eq!(driver.kinds(), ["NotInitialized"]);
    assert_eq!(call!(driver, "cuDriverGetVersion", &mut count), 0);
    assert_eq!(count, 13000);
}

#[test]
fn a_function_that_is_left_out_is_not_found() {
    let sim = Simulated::builder(Vendor::Cuda).without(&["cuMemcpyBatchAsync_v2"]).load();
    assert!(sim.symbol(c"cuMemcpyBatchAsync_v2").is_null());
    assert!(!sim.symbol(c"cuMemcpyBatchAsync").is_null());
    let driver = started();
    assert!(!driver.sim.symbol(c"cuMemcpyBatchAsync_v2").is_null());
}
