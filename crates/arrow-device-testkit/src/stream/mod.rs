//! Peers for device streams: a producer and a consumer that are written by hand, each with a
//! mistake on demand, and the checks that find these mistakes.
//!
//! A [`Script`] describes what a stream gives. [`check_producer`] is a consumer that keeps to the
//! rules and asks for everything it may ask for. [`check_consumer`] is a producer that watches how
//! it is called. Both are made for device streams; [`host_of`] and [`device_of`] make them work for
//! streams of plain arrays.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

mod consumer;
mod producer;
mod wrap;

use std::sync::Arc;

pub use consumer::{
    ConsumeStream, ConsumerFault, ProduceStream, StreamSeen, check_consumer, check_producer,
};
pub use producer::{ProducerFault, Watch, produce, produce_watched};
pub use wrap::{device_of, host_of};

use crate::Verdict;
use crate::kinds::Kind;
use crate::ledger::Ledger;
use crate::plan::{Nulls, Plan, Window};

/// The steps of a stream, after which it ends.
#[derive(Clone, Debug)]
pub struct Script {
    /// A plan of an array of the schema's type.
    pub schema: Plan,
    /// The type of device that the stream names.
    pub device_type: i32,
    /// The results of `get_next`, one after the other.
    pub steps: Vec<Step>,
}

/// The result of one call of `get_next`.
#[derive(Clone, Debug)]
pub enum Step {
    /// An array on the stream's type of device, with this device id.
    Chunk(Plan, i64),
    /// An array on another type of device, which no stream may give.
    Stray(Plan, i32),
    /// An error and its text.
    Error(i32, Option<&'static str>),
}

/// A device type that nobody knows.
pub const UNKNOWN_TYPE: i32 = 4711;

impl Script {
    /// Returns a script of arrays of this type with one, two, three elements and so on, on several
    /// devices of one type.
    pub fn of(kind: &Kind, device_type: i32, chunks: usize) -> Self {
        let plan = |length| {
            let window = Window { offset: 0, length, tail: 1, absent: false };
            kind.plan(window, Nulls::Counted)
        };
        let number = |index: usize| if device_type == 1 { -1 } else { index as i64 % 3 };
        let steps = (1..=chunks).map(|index| Step::Chunk(plan(index), number(index))).collect();
        Self { schema: plan(0), device_type, steps }
    }

    /// Adds one more step.
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns how many arrays come before the end or the first step that is no array.
    pub fn good_chunks(&self) -> usize {
        self.steps.iter().take_while(|step| matches!(step, Step::Chunk(..))).count()
    }
}

/// The books of the parts of a stream: what is alive, and what was done wrong.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The stream itself: one base structure.
    pub stream: Arc<Ledger>,
    /// The schemas that the stream gave.
    pub schemas: Arc<Ledger>,
    /// The arrays that the stream gave.
    pub chunks: Arc<Ledger>,
}

impl Books {
    /// Checks that the stream was released once and `chunks` arrays were released, each once, and
    /// that nothing is left.
    pub fn settle(&self, chunks: usize) -> Verdict {
        self.stream.settle(1).map_err(|complaint| format!("the stream: {complaint}"))?;
        self.chunks.settle(chunks).map_err(|complaint| format!("the arrays: {complaint}"))?;
        let schemas = self.schemas.base_releases();
        self.schemas.settle(schemas).map_err(|complaint| format!("the schemas: {complaint}"))
    }
}
