//! Work that fails, and what waits for it.

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_testkit::process;

use crate::support::Bench;

/// A queue that waits for failed work goes on, although Metal has signalled nothing.
// Requirement: DRV-27, SAF-39
#[test]
fn failed_work_is_told_with_its_code_and_holds_up_nobody() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let (queue, other) = (bench.open_queue().unwrap(), bench.open_queue().unwrap());
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        let good = array.copy_to(&queue).unwrap();
        good.wait().unwrap();
        bench.stand_in.set_delay(20_000_000);
        bench.stand_in.fail_next_copy(3);
        // Data of this device is copied by the queue.
        let options = Options::new().always(true);
        let bad = good.copy_with(&queue, &options).unwrap();
        assert!(!bad.is_same(&good));
        drop(bad.on(&other).unwrap());
        let event = other.record().unwrap();
        bench.stand_in.set_delay(0);
        for error in [event.synchronize().unwrap_err(), bad.to_host().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
            let vendor = error.vendor().unwrap();
            assert_eq!((vendor.code, &*vendor.text), (3, "MTLCommandBufferErrorPageFault"));
        }
        assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
        assert!(good.to_host().unwrap().equals(&array).unwrap());
        // Another queue is as good as ever.
        let fresh = bench.open_queue().unwrap();
        assert!(array.copy_to(&fresh).unwrap().to_host().unwrap().equals(&array).unwrap());
    });
}
