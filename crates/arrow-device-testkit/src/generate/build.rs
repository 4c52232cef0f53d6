//! Builds an array of the library from a plan.

use std::sync::Arc;

use arrow_device::{Array, Buffer, DeviceId, Result, Schema};

use crate::ledger::{Bytes, Ledger};
use crate::plan::{Content, Plan};
use crate::producer;
use crate::shape::Shape;

/// Builds an array in host memory, with the library's builder. The ledger counts the array's
/// buffers.
///
/// Equal parts of the plan become one array, which is then in the tree several times.
pub fn build(plan: &Plan, ledger: &Arc<Ledger>) -> Result<Array> {
    node(plan, ledger, &mut Vec::new())
}

/// Returns the schema of a plan, which the library reads from C structs.
pub fn import_schema(plan: &Plan) -> Result<Schema> {
    let mut schema = producer::schema(plan, &Ledger::new());
    // SAFETY: the producer fills the struct as the specification asks, and its release may be
    // called on any thread.
    unsafe { Schema::import(&mut schema) }
}

fn node<'a>(
    plan: &'a Plan,
    ledger: &Arc<Ledger>,
    made: &mut Vec<(&'a Plan, Array)>,
) -> Result<Array> {
    if let Some((_, array)) = made.iter().find(|(known, _)| *known == plan) {
        return Ok(array.clone());
    }
    let is_variadic = Shape::of(plan.format.as_bytes()) == Shape::Views;
    // The builder fills in the sizes of the data buffers of views itself.
    let count = plan.buffers.len() - usize::from(is_variadic);
    let buffers: Vec<Option<Buffer>> =
        plan.buffers.iter().take(count).map(|content| buffer(content, ledger)).collect();
    let mut children = Vec::new();
    for child in &plan.children {
        children.push(node(child, ledger, made)?);
    }
    let mut builder = Array::builder(&import_schema(plan)?)
        .offset(plan.offset as usize)
        .len(plan.length as usize)
        .buffers(buffers)
        .children(children);
    if let Ok(null_count) = usize::try_from(plan.null_count) {
        builder = builder.null_count(null_count);
    }
    if let Some(values) = &plan.dictionary {
        builder = builder.dictionary(node(values, ledger, made)?);
    }
    let array = builder.finish_ready()?;
    made.push((plan, array.clone()));
    Ok(array)
}

fn buffer(content: &Content, ledger: &Arc<Ledger>) -> Option<Buffer> {
    match content {
        Content::Null => None,
        Content::At(_) | Content::On(_) => panic!("not made of host memory"),
        Content::Bytes(contents) => {
            let bytes = Bytes::new(contents.clone(), ledger);
            let (address, len) = (bytes.address(), bytes.len());
            // SAFETY: `bytes` are `len` bytes at this address, in host memory that nobody writes
            // to, for as long as they live.
            Some(unsafe { Buffer::foreign(DeviceId::CPU, address, len, bytes) })
        }
    }
}
