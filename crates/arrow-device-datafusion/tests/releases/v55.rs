//! With DataFusion 55.

use {arrow_device_datafusion::v55 as bridge, datafusion_55 as datafusion};

#[path = "each.rs"]
mod each;

use std::sync::Arc;

use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

fn with_child(
    plan: Arc<dyn ExecutionPlan>,
    child: Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(vec![child], options).unwrap()
}
