//! With DataFusion 54.

use {arrow_device_datafusion::v54 as bridge, datafusion_54 as datafusion};

#[path = "each.rs"]
mod each;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

fn with_child(
    plan: Arc<dyn ExecutionPlan>,
    child: Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    plan.with_new_children(vec![child]).unwrap()
}
