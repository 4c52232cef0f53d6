//! Builds the resulting array from the memory that a copy went to.

use std::ops::Range;
use std::sync::Arc;

use super::target::{Target, TargetParts};
use crate::array::{ArrayNode, Below, BufferPointer, Built, Nodes, ReadyWhen, Tables, Tree};
use crate::copy::plan::transfer::Transfer;
use crate::copy::plan::walk::{Item, Walked};
use crate::copy::step;
use crate::device::BytesOwner;
use crate::numbered::{all_numbered, numbered};
use crate::pool::shared::Shared;
use crate::{Array, Buffer, Error, Extent, Result};

/// Builds the result: one tree with one owner of all memory, or, where the options ask for separate
/// buffers, a tree for each node, so that a column keeps its own memory and no other.
///
/// # Safety
/// All pieces are in the target when the readiness says so.
pub(in crate::copy) unsafe fn build(
    transfer: &Transfer,
    walked: &Walked,
    target: Target,
    readiness: ReadyWhen,
) -> Result<Array> {
    let pieces = walked.pieces.list();
    let built = match transfer.options.separate {
        // SAFETY: all pieces are written by the time that the array is ready, as the caller
        // promises.
        false => unsafe { target.into_parts(pieces) }
            .and_then(|parts| one_tree(transfer, walked, parts, readiness)),
        true => {
            // SAFETY: all pieces are written by the time that the array is ready, as the caller
            // promises.
            let buffers = unsafe { target.into_buffers(pieces) };
            tree_of_trees(transfer, walked, &buffers, &readiness)
        }
    };
    built.map_err(|error: Error| error.at_step(step::BUILD))
}

fn one_tree(
    transfer: &Transfer,
    walked: &Walked,
    parts: Option<TargetParts>,
    readiness: ReadyWhen,
) -> Result<Array> {
    let pieces = walked.pieces.list();
    let pointer = |slot: &u32| {
        let piece = pieces.get(*slot as usize).zip(parts.as_ref());
        let raw = piece.and_then(|(piece, parts)| parts.raw(*slot as usize, piece));
        BufferPointer(raw.map_or(std::ptr::null(), |raw| raw.as_ptr().cast_const()))
    };
    let len = |slot: &u32| pieces.get(*slot as usize).map_or(0, |piece| piece.len);
    let mut pointers: Arc<[BufferPointer]> = walked.slots.iter().map(pointer).collect();
    let mut extents: Box<[Extent]> =
        walked.slots.iter().map(|slot| Extent::Exact(len(slot))).collect();
    let mut owners = Vec::with_capacity(1 + walked.sizes.len());
    owners.extend(parts.map(TargetParts::into_owner));
    // The sizes of the data buffers are in the last buffer, which is host memory.
    for (number, sizes) in &walked.sizes {
        let own: Arc<[i64]> = sizes.as_slice().into();
        let last = slots_of(walked, *number as usize).end.wrapping_sub(1);
        let pointer = Arc::get_mut(&mut pointers).and_then(|pointers| pointers.get_mut(last));
        *numbered(pointer) = BufferPointer(own.as_ptr().cast());
        *numbered(extents.get_mut(last)) = Extent::Exact(8 * own.len() as u64);
        owners.push(Arc::new(own) as BytesOwner);
    }
    let node = |item: &Item| ArrayNode {
        window: item.window,
        buffers: pointers.as_ptr().wrapping_add(item.first_slot as usize).cast(),
        n_buffers: item.n_buffers,
        extents: item.first_slot,
    };
    let nodes: Vec<ArrayNode> = walked.items.iter().map(node).collect();
    let tables = Tables { extents, pointers };
    let nodes = Nodes::from(nodes);
    let built = Built {
        nodes,
        owners: owners.into(),
        below: Below::default(),
        came_without_event: false,
        tables,
    };
    let device = transfer.queue.device().id();
    let tree = Tree::built(walked.schema.clone(), device, readiness, built);
    Ok(Array::from_tree(Shared::new(tree)?))
}

/// Every node as an array of its own, children before their parents.
fn tree_of_trees(
    transfer: &Transfer,
    walked: &Walked,
    buffers: &[Buffer],
    readiness: &ReadyWhen,
) -> Result<Array> {
    let device = transfer.queue.device().id();
    let event = readiness.pending().iter().find_map(crate::array::Pending::event).cloned();
    let mut done: Vec<Option<Array>> = vec![None; walked.items.len()];
    for (number, item) in walked.items.iter().enumerate().rev() {
        let node = walked.schema.node(number as u32);
        // The arrays below were built before. Each has one parent.
        let mut take = |below: u32| numbered(done.get_mut(below as usize).and_then(Option::take));
        let children: Vec<Array> = walked.schema.children(number as u32).map(&mut take).collect();
        let dictionary = walked.schema.dictionary(number as u32).map(take);
        let variadic = usize::from(node.layout.is_variadic());
        let slots = all_numbered(&walked.slots, slots_of(walked, number));
        let own = slots.iter().take(slots.len().saturating_sub(variadic));
        let own = own.map(|slot| buffers.get(*slot as usize).cloned());
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
            // SAFETY: the pieces are there after this event, as the caller of `build` promised.
            Some(event) => unsafe { builder.finish_after(event.clone()) },
            None => builder.finish_ready(),
        }?;
        *numbered(done.get_mut(number)) = Some(array);
    }
    let root = done.into_iter().next().flatten();
    root.ok_or_else(crate::copy::step::no_way)
}

/// The range of a node's slots.
fn slots_of(walked: &Walked, number: usize) -> Range<usize> {
    let Item { first_slot, n_buffers, .. } = numbered(walked.items.get(number));
    *first_slot as usize..*first_slot as usize + *n_buffers as usize
}
