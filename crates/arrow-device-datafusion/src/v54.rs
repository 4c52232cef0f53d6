//! For DataFusion 54, which has arrow-rs 58.

use {arrow_device_arrow::v58 as bridge, datafusion_54 as datafusion};

/// What a plan of this release has besides, told its statistics by `self.statistics_of`.
macro_rules! leaf_statistics {
    () => {
        fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
            Ok(Arc::new(self.statistics_of(partition)))
        }
    };
}

/// This release asks no plan for its expressions.
macro_rules! no_expressions {
    () => {};
}

#[path = "release/mod.rs"]
mod release;

pub use release::{DeviceArrays, DeviceScan, DeviceTable, OnDevice, Results, results};
