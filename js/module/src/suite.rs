//! The suite of `arrow-device-testkit` on a device of the page's stand-in.

use arrow_device::Device;
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};

use crate::driver::{PageDriver, Progress};
use crate::page;

const MOST: u64 = 256 << 20;

fn driver(number: u32) -> (PageDriver, std::sync::Arc<Progress>) {
    let driver = PageDriver::new(number, "a page's stand-in".to_owned(), MOST);
    let progress = driver.progress();
    (driver, progress)
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20, DRV-28
#[test]
fn a_device_of_a_page_passes() {
    process::alone(|| {
        let (driver, progress) = driver(1);
        let device = Device::new(driver);
        let turn = || page::turn(1).into_iter().for_each(|mark| progress.pass(mark));
        let lose = || progress.lose();
        let suite = Suite::new(&device).turned_by(&turn).losing(&lose);
        let report = suite.run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
        assert_eq!((report.cases(), page::buffer_count()), (7 * 1598 + 28, 0));
    });
}
