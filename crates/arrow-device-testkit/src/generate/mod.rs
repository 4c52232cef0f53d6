//! Makes arbitrary schemas and arrays from one source of choices: a string of bytes.
//!
//! The same bytes give the same array, which is always valid. Shorter or smaller bytes give a
//! simpler array. So one function serves property tests, which draw bytes and shrink them
//! ([`plans`]), and fuzz targets, which are given bytes.
//!
//! ```
//! use arrow_device_testkit::generate::{self, Choices};
//! use arrow_device_testkit::oracle;
//!
//! let plan = generate::plan(&mut Choices::new(&[11, 3, 200, 7, 41]));
//! println!("{}: {:?}", generate::describe(&plan), oracle::values(&plan).unwrap());
//! ```
//!
//! A plan is bytes and numbers. [`producer`](crate::producer) exports a plan without the library;
//! [`build`] makes an array of the library from a plan.
//!
//! # What is generated
//!
//! Every format; every type inside every other, down to a few levels; names, flags, metadata,
//! extension types; windows with an offset and with elements behind the last one; nulls that are
//! counted, not counted, absent, all or none; bitmaps that nobody needs; first offsets that are not
//! 0; overlapping list views; views of up to three data buffers; null buffers where there is
//! nothing; children that are longer than needed, and children that are equal, which [`build`]
//! shares. What the format leaves open is garbage as often as not: what lies outside of the window,
//! and below nulls.

mod build;
mod choices;
mod fill;
mod schema;

pub use build::{build, import_schema};
pub use choices::{Choices, Noise};
pub use fill::fill;
pub use schema::schema;

use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::plan::Plan;

/// The largest size of what is generated.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Levels below the root.
    pub depth: usize,
    /// Nodes of the schema.
    pub nodes: usize,
    /// Elements of the root.
    pub length: usize,
    /// Elements of all nodes together, more or less.
    pub elements: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { depth: 4, nodes: 16, length: 20, elements: 600 }
    }
}

/// Makes an array of some type.
pub fn plan(choices: &mut Choices<'_>) -> Plan {
    plan_within(choices, Budget::default())
}

/// Makes an array of some type, with at most this size.
pub fn plan_within(choices: &mut Choices<'_>, budget: Budget) -> Plan {
    let schema = schema(choices, budget);
    let length = choices.below(budget.length + 1);
    fill(&schema, choices, length, budget)
}

/// Returns a strategy of arrays for proptest. It shrinks the bytes, which a failing test shows.
pub fn plans() -> impl Strategy<Value = Generated> {
    proptest::collection::vec(proptest::num::u8::ANY, 0..160).prop_map(Generated::new)
}

/// An array, with the bytes that it was made from.
#[derive(Clone)]
pub struct Generated {
    /// The bytes that [`plan`] was given.
    pub bytes: Vec<u8>,
    /// The array that it made.
    pub plan: Plan,
}

impl Generated {
    /// Makes the array that these bytes stand for.
    pub fn new(bytes: Vec<u8>) -> Self {
        let plan = plan(&mut Choices::new(&bytes));
        Self { bytes, plan }
    }
}

impl std::fmt::Debug for Generated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} made of {:?}", describe(&self.plan), self.bytes)
    }
}

/// Checks a property of `cases` arrays, the same arrays each time. The message of a failure has the
/// bytes of the simplest array that still fails.
///
/// # Panics
/// Panics if the property does not hold.
pub fn for_each(cases: u32, seed: u64, property: impl Fn(&Generated) -> crate::Verdict) {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &key);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&plans(), |generated| {
        property(&generated).map_err(proptest::test_runner::TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("seed {seed}: {error}");
    }
}

/// Returns `count` arrays, the same arrays each time.
pub fn samples(count: usize, seed: u64) -> impl Iterator<Item = Generated> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &key);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(move |_| plans().new_tree(&mut runner).expect("bytes").current())
}

/// Describes the type of an array, and its window, on one line.
pub fn describe(plan: &Plan) -> String {
    format!("{} {}+{}", describe_type(plan), plan.offset, plan.length)
}

fn describe_type(plan: &Plan) -> String {
    let format = plan.format.to_string_lossy();
    let children: Vec<String> = plan.children.iter().map(describe_type).collect();
    let below =
        if children.is_empty() { String::new() } else { format!("<{}>", children.join(", ")) };
    match &plan.dictionary {
        Some(values) => format!("dictionary<{format}, {}>", describe_type(values)),
        None => format!("{format}{below}"),
    }
}
