//! [`Structs`]: the C structs of an imported tree, which stay where the producer put them and are
//! the table of nodes.

use crate::numbered::{all_numbered, numbered};
use std::ops::Range;

use super::node::ArrayNode;
use super::window::Window;
use crate::abi::ArrowArray;
use crate::pool::list::List;
use crate::schema::Check;

/// The structs of an imported tree, all of which keep to their rules. They are the consumer's from
/// the import to the release, so nobody writes to them: `import`'s caller promises it.
pub(crate) struct Structs {
    base: ForeignArray,
    below: StructsBelow,
}

/// Where the structs below the base are.
pub(crate) enum StructsBelow {
    /// The structs are the children of the base and no others, so the base's own table leads to all
    /// of them in the order of their numbers.
    Children,
    /// A table of the structs on all levels below the base.
    Table(List<*const ArrowArray>),
}

impl StructsBelow {
    /// The structs below a base.
    ///
    /// # Safety
    /// The base was checked, and has a table of its children, which nobody writes to.
    pub(super) unsafe fn of<'a>(&'a self, base: &'a ArrowArray) -> &'a [*const ArrowArray] {
        let ArrowArray { children, n_children, .. } = *base;
        match self {
            Self::Table(table) => table,
            Self::Children if n_children == 0 => &[],
            // SAFETY: there is a table of so many children, which nobody writes to, as the caller
            // promises.
            Self::Children => unsafe {
                std::slice::from_raw_parts(children.cast_const().cast(), n_children as usize)
            },
        }
    }
}

impl Structs {
    /// # Safety
    /// The tree was checked: the base keeps to the rule of the schema's root, what `below` leads to
    /// are the structs of the nodes from 1 on, and each keeps to its rule. They stay until the base
    /// is released.
    pub(crate) unsafe fn new(base: ForeignArray, below: StructsBelow) -> Self {
        Self { base, below }
    }

    pub(crate) fn base(&self) -> &ArrowArray {
        &self.base.0
    }

    /// Which elements a base struct has. The struct was seen to keep to its rule.
    pub(crate) fn root(base: &ArrowArray, checks: &[Check]) -> Window {
        ArrayNode::of(base, numbered(checks.first()).nulls).window
    }

    /// The structs of the nodes from 1 on.
    pub(crate) fn below(&self) -> &[*const ArrowArray] {
        // SAFETY: `new`'s caller saw that the base keeps to its rule.
        unsafe { self.below.of(self.base()) }
    }

    /// A node. `checks` are those of the whole schema.
    pub(crate) fn node(&self, number: u32, checks: &[Check]) -> ArrayNode {
        ArrayNode::of(self.get(number), numbered(checks.get(number as usize)).nulls)
    }

    /// Some nodes below the base.
    pub(crate) fn nodes<'a>(
        &'a self,
        numbers: Range<u32>,
        checks: &'a [Check],
    ) -> impl ExactSizeIterator<Item = ArrayNode> + 'a {
        let (start, end) = (numbers.start as usize, numbers.end as usize);
        let structs = all_numbered(self.below(), start.wrapping_sub(1)..end.wrapping_sub(1));
        let checks = all_numbered(checks, start..end);
        structs.iter().zip(checks).map(|(source, check)| {
            // SAFETY: `new`'s caller saw a struct there, and it stays as long as the base.
            ArrayNode::of(unsafe { &**source }, check.nulls)
        })
    }

    /// The struct of a node.
    pub(super) fn get(&self, number: u32) -> &ArrowArray {
        match (number as usize).checked_sub(1) {
            None => self.base(),
            Some(index) => {
                let noted = *numbered(self.below().get(index));
                // SAFETY: `new`'s caller saw a struct there, and it stays as long as the base.
                unsafe { &*noted }
            }
        }
    }
}

/// A base structure that another party filled and this one owns now.
pub(crate) struct ForeignArray(pub(crate) ArrowArray);

impl Drop for ForeignArray {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: UNS-6: the struct was moved here and is not released yet; the specification
            // asks the consumer to "call the base structure's release callback" exactly once, at
            // whatever address the struct is, and the callback can be called on any thread.
            unsafe { release(&raw mut self.0) }
        }
    }
}
