//! [`Image`]: what the structs of every export of a schema say.

use super::Text;
use crate::abi::ArrowSchema;

/// What every exported struct of a schema says, links aside.
pub(crate) struct Image {
    pub(super) nodes: Box<[ArrowSchema]>,
    /// The format strings that are not a part of the program. Names and metadata are kept by the schema.
    pub(super) _formats: Box<[Text]>,
}

// SAFETY: the pointers in the structs lead to bytes that are never written to, and that the image or its schema keeps.
unsafe impl Send for Image {}

// SAFETY: as above.
unsafe impl Sync for Image {}
