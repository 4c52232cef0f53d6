//! Peers for device streams: a producer and a consumer that are written by hand, each with a fault
//! to order, and the checks that find the faults.
//!
//! A [`Script`] says what a stream gives. [`check_producer`] is a consumer that keeps to the rules
//! and asks for everything it may ask for; [`check_consumer`] is a producer that looks closely at
//! how it is called. Both are about device streams; [`host_of`] and [`device_of`] let them be used
//! for streams of plain arrays.

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

/// What a stream gives, step by step; then it ends.
#[derive(Clone, Debug)]
pub struct Script {
    /// An array of the type that the schema says.
    pub schema: Plan,
    /// The type of device that the stream names.
    pub device_type: i32,
    /// What `get_next` gives.
    pub steps: Vec<Step>,
}

/// What one call of `get_next` gives.
#[derive(Clone, Debug)]
pub enum Step {
    /// An array on the stream's type of device, with this number.
    Chunk(Plan, i64),
    /// An array on another type of device, which no stream may give.
    Stray(Plan, i32),
    /// An error and its text.
    Error(i32, Option<&'static str>),
}

/// No device type that anybody knows.
pub const UNKNOWN_TYPE: i32 = 4711;

impl Script {
    /// Arrays of this type with one, two, three elements and so on, on several devices of one type.
    pub fn of(kind: &Kind, device_type: i32, chunks: usize) -> Self {
        let plan = |length| {
            let window = Window { offset: 0, length, tail: 1, absent: false };
            kind.plan(window, Nulls::Counted)
        };
        let number = |index: usize| if device_type == 1 { -1 } else { index as i64 % 3 };
        let steps = (1..=chunks).map(|index| Step::Chunk(plan(index), number(index))).collect();
        Self { schema: plan(0), device_type, steps }
    }

    /// Followed by one more step.
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// How many arrays come before the end or the first step that is none.
    pub fn good_chunks(&self) -> usize {
        self.steps.iter().take_while(|step| matches!(step, Step::Chunk(..))).count()
    }
}

/// What the parts of a stream have alive, and what was done wrong with them.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The stream itself: one base structure.
    pub stream: Arc<Ledger>,
    /// The schemas that it gave.
    pub schemas: Arc<Ledger>,
    /// The arrays that it gave.
    pub chunks: Arc<Ledger>,
}

impl Books {
    /// That the stream was released once, so many arrays were released, each once, and that nothing
    /// is left.
    pub fn settle(&self, chunks: usize) -> Verdict {
        self.stream.settle(1).map_err(|complaint| format!("the stream: {complaint}"))?;
        self.chunks.settle(chunks).map_err(|complaint| format!("the arrays: {complaint}"))?;
        let schemas = self.schemas.base_releases();
        self.schemas.settle(schemas).map_err(|complaint| format!("the schemas: {complaint}"))
    }
}
