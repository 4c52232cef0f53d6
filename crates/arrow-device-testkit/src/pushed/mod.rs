//! Peers for asynchronous streams: a producer and a consumer that are written by hand against the C
//! structs. Each can make one mistake on demand, and watches what the other does.
//!
//! Neither has a thread or waits for anything: a test moves them on step by step, and sees what
//! happens. The [`Source`] knows the rules for consumers, the [`Sink`] those for producers. Their
//! verdicts say what the other side did wrong.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

mod sink;
mod source;

use std::ffi::{CStr, c_char};

pub use sink::{Sink, SinkFault};
pub use source::{Source, SourceFault};

use crate::plan::{Content, Plan, integers};

/// Returns a plan of three numbers, beginning with `first`.
pub fn numbers(first: i64) -> Plan {
    Plan {
        format: c"l".into(),
        name: None,
        metadata: None,
        flags: 2,
        length: 3,
        null_count: 0,
        offset: 0,
        buffers: vec![Content::Null, Content::Bytes(integers(8, first..first + 3))],
        children: Vec::new(),
        dictionary: None,
    }
}

/// Returns a plan of a batch whose one column has these numbers.
pub fn batch(first: i64) -> Plan {
    let column = Plan { name: Some(c"n".into()), ..numbers(first) };
    Plan {
        format: c"+s".into(),
        flags: 0,
        buffers: vec![Content::Null],
        children: vec![column],
        ..numbers(first)
    }
}

/// The result of a stream, as its consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Open,
    /// The end came, and then the release.
    Ended,
    /// An error with its text came, and then the release.
    Failed(i32, Option<String>),
    /// The release came, and nothing before it.
    Released,
}

fn text_of(text: *const c_char) -> Option<String> {
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    text.map(|text| text.to_string_lossy().into_owned())
}
