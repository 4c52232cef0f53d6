//! For DataFusion 55, which has arrow-rs 59.

use {arrow_device_arrow::v59 as bridge, datafusion_55 as datafusion};

/// The methods by which a plan without inputs reports its statistics in this release. The plan has
/// `statistics_of`.
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

/// The method by which a plan reports that it has no expressions.
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
