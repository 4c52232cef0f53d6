//! For DataFusion 54, which has arrow-rs 58.

use {arrow_device_arrow::v58 as bridge, datafusion_54 as datafusion};

/// The methods by which a plan without inputs reports its statistics in this release. The plan has
/// `statistics_of`.
macro_rules! leaf_statistics {
    () => {
        fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
            Ok(Arc::new(self.statistics_of(partition)))
        }
    };
}

/// No method: this release asks no plan for its expressions.
macro_rules! no_expressions {
    () => {};
}

#[path = "release/mod.rs"]
mod release;

pub use release::{DeviceArrays, DeviceScan, DeviceTable, OnDevice, Results, results};
