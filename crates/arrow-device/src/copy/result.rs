//! The array of a copy, put together from the memory that it went to.

use std::sync::Arc;

use super::plan::Plan;
use super::step;
use super::target::Target;
use super::walk::{Item, Walked};
use crate::array::{BufferPointer, Built, Node, Nodes, Readiness, Tables, Tree};
use crate::device::Owner;
use crate::exchange::shared::Shared;
use crate::{Array, Buffer, Error, Extent, Result};

/// Builds the result: one tree for a packed one, and one for each node where buffers are separate.
pub(super) fn build(
    plan: &Plan,
    walked: &Walked,
    target: Target,
    readiness: Readiness,
) -> Result<Array> {
    let is_packed = target.is_packed();
    let failed = |error: Error| error.at_step(step::BUILD);
    let buffers = target.into_buffers(walked.pieces.list()).map_err(failed)?;
    match is_packed {
        true => one_tree(plan, walked, buffers, readiness),
        false => tree_of_trees(plan, walked, &buffers, &readiness),
    }
    .map_err(failed)
}

fn one_tree(
    plan: &Plan,
    walked: &Walked,
    buffers: Vec<Buffer>,
    readiness: Readiness,
) -> Result<Array> {
    let mut sizes: Vec<Arc<[i64]>> = Vec::new();
    let mut pointers = Vec::with_capacity(walked.slots.len());
    let mut extents = Vec::with_capacity(walked.slots.len());
    for (number, item) in walked.items.iter().enumerate() {
        let slots = slots(walked, number);
        for slot in slots {
            let buffer = slot.and_then(|piece| buffers.get(piece));
            pointers.push(BufferPointer(buffer.map_or(Ok(std::ptr::null()), Buffer::c_pointer)?));
            extents.push(buffer.map_or(Extent::Exact(0), Buffer::extent));
        }
        // The sizes of data buffers are the last buffer, in host memory.
        if !item.sizes.is_empty()
            && let (Some(pointer), Some(extent)) = (pointers.last_mut(), extents.last_mut())
        {
            let own: Arc<[i64]> = item.sizes.as_slice().into();
            *pointer = BufferPointer(own.as_ptr().cast());
            *extent = Extent::Exact(8 * own.len() as u64);
            sizes.push(own);
        }
    }
    let pointers: Arc<[BufferPointer]> = pointers.into();
    let node = |(number, item): (usize, &Item)| Node {
        window: item.window,
        buffers: pointers.as_ptr().wrapping_add(item.first_slot).cast(),
        n_buffers: slots(walked, number).len() as u32,
        extents: item.first_slot as u32,
    };
    let nodes: Vec<Node> = walked.items.iter().enumerate().map(node).collect();
    let mut owners: Vec<Owner> = Vec::new();
    for owner in buffers.into_iter().filter_map(Buffer::into_owner) {
        // Parts of one allocation share it.
        if owners.last().is_none_or(|last| !Arc::ptr_eq(last, &owner)) {
            owners.push(owner);
        }
    }
    owners.extend(sizes.into_iter().map(|sizes| Arc::new(sizes) as Owner));
    let tables = Tables { extents: extents.into(), _pointers: pointers };
    let nodes = Nodes::from(nodes);
    let built = Built { nodes, _buffers: owners.into(), below: Box::default(), tables };
    let device = plan.queue.device().id();
    let tree = Tree::built(walked.schema.clone(), device, readiness, built);
    Ok(Array::from_tree(Shared::new(tree)?))
}

/// Every node as an array of its own, children before their parents.
fn tree_of_trees(
    plan: &Plan,
    walked: &Walked,
    buffers: &[Buffer],
    readiness: &Readiness,
) -> Result<Array> {
    let device = plan.queue.device().id();
    let event = readiness.pending().iter().find_map(crate::array::Pending::event).cloned();
    let mut done: Vec<Option<Array>> = vec![None; walked.items.len()];
    for (number, item) in walked.items.iter().enumerate().rev() {
        let node = walked.schema.node(number as u32);
        let mut take = |below: u32| done.get_mut(below as usize).and_then(Option::take);
        let children: Vec<Array> = node.children().filter_map(&mut take).collect();
        let dictionary = node.dictionary().and_then(take);
        let variadic = usize::from(node.layout.is_variadic());
        let slots = slots(walked, number);
        let own = slots.iter().take(slots.len().saturating_sub(variadic));
        let own = own.map(|slot| slot.and_then(|piece| buffers.get(piece)).cloned());
        let mut builder = Array::builder(&walked.schema.subtree(number as u32)?)
            .device(device)
            .offset(usize::try_from(item.window.offset).unwrap_or(usize::MAX))
            .len(usize::try_from(item.window.length).unwrap_or(usize::MAX))
            .buffers(own)
            .children(children);
        if let Ok(null_count) = usize::try_from(item.window.null_count) {
            builder = builder.null_count(null_count);
        }
        if let Some(dictionary) = dictionary {
            builder = builder.dictionary(dictionary);
        }
        let array = match &event {
            Some(event) => builder.finish_after(event.clone()),
            None => builder.finish_ready(),
        }?;
        if let Some(slot) = done.get_mut(number) {
            *slot = Some(array);
        }
    }
    let root = done.into_iter().next().flatten();
    root.ok_or_else(super::run::no_way)
}

/// The pieces that fill the buffers of an item.
fn slots(walked: &Walked, number: usize) -> &[Option<usize>] {
    let first = walked.items.get(number).map_or(0, |item| item.first_slot);
    let end = walked.items.get(number + 1).map_or(walked.slots.len(), |item| item.first_slot);
    walked.slots.get(first..end).unwrap_or_default()
}
