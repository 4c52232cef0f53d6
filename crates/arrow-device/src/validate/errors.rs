//! The errors of validation, and the node that they name.

use crate::{Array, Error, ErrorKind, NodePath};

/// The path from an array to a node below it.
pub(super) fn place(root: &Array, node: &Array) -> NodePath {
    NodePath::new(root.tree().schema.steps_between(root.node_number(), node.node_number()))
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

pub(super) fn invalid_element(index: usize, message: impl std::fmt::Display) -> Error {
    invalid(format!("element {index}: {message}"))
}
