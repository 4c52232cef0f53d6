//! The place of a node in a tree of columns, for errors.

use std::fmt;

/// One step down a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// To the child with this index.
    Child(usize),
    /// To the values of a dictionary.
    Dictionary,
}

/// A node of an array or schema tree, as the path to it: `array.child[3].dictionary`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePath {
    steps: Vec<Step>,
}

impl NodePath {
    /// The root.
    pub const ROOT: Self = Self { steps: Vec::new() };

    /// The node that these steps lead to.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect() }
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The node that one more step leads to.
    pub fn join(&self, step: Step) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { steps }
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("root")?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Child(index) => write!(f, ".child[{index}]"),
            Step::Dictionary => f.write_str(".dictionary"),
        })
    }
}
