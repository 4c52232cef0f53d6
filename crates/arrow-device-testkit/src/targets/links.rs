//! The common part of schema and array structs: counts, tables, and a release that is counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::generate::Choices;

/// The children and the dictionary of a struct, as numbers of structs in the tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    pub(super) n_children: i64,
    /// The entries of the table of children, `None` where there is no table.
    pub(super) children: Option<Vec<Option<usize>>>,
    pub(super) dictionary: Option<usize>,
    pub(super) is_released: bool,
}

/// The least number of entries of a table of pointers, so a wrong count up to this is harmless. A
/// wrong count is at most this, or larger than anything that the library would follow.
pub(super) const PADDED: usize = 8;

/// Returns a wrong count or length.
pub(super) fn absurd(choices: &mut Choices<'_>) -> i64 {
    match choices.below(4) {
        0 => choices.below(PADDED + 1) as i64,
        1 => choices.pick(&[-1, -2, i64::MIN, i64::MIN + 1, i64::from(i32::MIN)]),
        2 => choices.pick(&[i64::MAX, i64::MAX - 8, 1 << 62, 1 << 40, (1 << 31) + 1]),
        _ => {
            let number = choices.number();
            if (0..=i64::from(i32::MAX)).contains(&number) { -number - 3 } else { number }
        }
    }
}

impl Links {
    /// Makes one mistake. A tree gets at most one additional edge to a struct of the tree: with
    /// two, there could be more paths through it than there is time.
    pub(super) fn spoil(&mut self, choices: &mut Choices<'_>, nodes: usize, edges: &mut usize) {
        let entry = choices.below(PADDED);
        match choices.below(6) {
            0 => self.n_children = absurd(choices),
            1 => self.children = None,
            2 => {
                if let Some(Some(pointer)) =
                    self.children.as_mut().map(|table| table.get_mut(entry))
                {
                    *pointer = None;
                }
            }
            3 => self.dictionary = None,
            4 => self.is_released = true,
            _ if *edges > 0 => {
                *edges -= 1;
                let to = Some(choices.below(nodes));
                match self.children.as_mut().and_then(|table| table.get_mut(entry)) {
                    Some(pointer) => *pointer = to,
                    None => self.dictionary = to,
                }
            }
            _ => {}
        }
    }

    /// Returns the padded table of pointers.
    pub(super) fn table<T>(&self, address: impl Fn(usize) -> *mut T) -> Vec<*mut T> {
        let Some(children) = &self.children else { return Vec::new() };
        let mut table: Vec<*mut T> =
            children.iter().map(|child| child.map_or(std::ptr::null_mut(), &address)).collect();
        table.resize(table.len().max(PADDED), std::ptr::null_mut());
        table
    }
}

/// How often the releases of a tree were called.
#[derive(Debug, Default)]
pub(super) struct Releases {
    pub(super) of_the_base: AtomicUsize,
    pub(super) of_others: AtomicUsize,
}

impl Releases {
    pub(super) fn base(&self) -> usize {
        self.of_the_base.load(Ordering::SeqCst)
    }

    /// Checks that the base was released so often, and nothing else ever.
    pub(super) fn check(&self, of_the_base: usize) {
        assert_eq!(self.base(), of_the_base, "releases of the base");
        assert_eq!(self.of_others.load(Ordering::SeqCst), 0, "releases of what is below the base");
    }
}
