//! For DataFusion 55, which has arrow-rs 59.

use {arrow_device_arrow::v59 as bridge, datafusion_55 as datafusion};

/// What a plan of this release has besides, told its statistics by `self.statistics_of`.
macro_rules! leaf_statistics {
    () => {
        fn statistics_from_inputs(
            &self,
            _inputs: &[Arc<Statistics>],
            args: &datafusion_55::physical_plan::statistics::StatisticsArgs,
        ) -> Result<Arc<Statistics>> {
            Ok(Arc::new(self.statistics_of(args.partition())))
        }
    };
}

/// The same for a plan without expressions.
macro_rules! no_expressions {
    () => {
        fn apply_expressions(
            &self,
            _visit: &mut dyn FnMut(
                &Arc<dyn datafusion_55::physical_plan::PhysicalExpr>,
            )
                -> Result<datafusion_55::common::tree_node::TreeNodeRecursion>,
        ) -> Result<datafusion_55::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion_55::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

#[path = "release/mod.rs"]
mod release;

pub use release::{DeviceArrays, DeviceScan, DeviceTable, OnDevice, Results, results};
