//! Structs with anything wrong: every member of every struct in turn, trees without end, and random
//! mistakes.
//!
//! A [`Hostile`] is a pair of structs of a correct producer and one change that spoils them.
//! [`Hostile::check`] passes them to an [`Importer`] and checks what a consumer owes a stranger: a
//! typed error that names the place in the tree, and exactly one release of what was passed,
//! whatever was wrong. [`all`] returns every single mistake, [`random`] any number of further ones.
//!
//! Every mistake here can be found without trusting a pointer that is not null. A table that is
//! shorter than its count, or a pointer that leads nowhere, cannot be found, and nobody can be
//! blamed for trusting those.
//!
//! ```
//! use arrow_device_testkit::hostile;
//!
//! for hostile in hostile::all().iter().step_by(97) {
//!     assert_eq!(hostile.check(&hostile::Ours), Ok(()), "{}", hostile.name);
//! }
//! ```

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

mod arrays;
mod random;
mod schemas;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, ErrorKind, NodePath, Result, Schema, Step};

pub use random::random;

use crate::consumer;
use crate::kinds::Kind;
use crate::ledger::Ledger;
use crate::plan::{Nulls, Plan, Window};
use crate::producer::{self, Manner};
pub use crate::relay::Ours;
use crate::{Verdict, require};

/// An implementation that takes structs over. If it refuses a struct, it has released it.
pub trait Importer {
    /// Takes a schema over.
    fn schema(&self, schema: &mut ArrowSchema) -> Result<Schema> {
        // SAFETY: the structs are as hostile as the library says that they may be.
        unsafe { Schema::import(schema) }
    }

    /// Takes an array over. The result keeps the array until it is dropped.
    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        // SAFETY: the structs are as hostile as the library says that they may be (UNS-1, UNS-3 to
        // UNS-6).
        Ok(Box::new(unsafe { Array::import(array, schema) }?))
    }
}

/// The library. An array that it accepts is exported once more.
impl Importer for Ours {
    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        // SAFETY: the structs are as hostile as the library says that they may be (UNS-1, UNS-3 to
        // UNS-6).
        let array = unsafe { Array::import(array, schema) }?;
        let mut out = ArrowDeviceArray::empty();
        array.export(&mut out)?;
        consumer::release(consumer::move_out(&raw mut out.array)).unwrap();
        Ok(Box::new(array))
    }
}

/// The duty of an importer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owed {
    /// An error of this kind that names this place in the tree.
    Refusal(ErrorKind, NodePath),
    /// An error of this kind, at any place: in a tree without end every place is as good.
    RefusalAnywhere(ErrorKind),
    /// Acceptance: the struct is odd and allowed.
    Acceptance,
    /// An error or acceptance, as long as everything is released once.
    Either,
}

/// Structs with something wrong.
pub struct Hostile {
    /// The type of the spoiled node, where it is, and what is wrong.
    pub name: String,
    /// The duty of the importer towards the producer.
    pub owed: Owed,
    plan: Arc<Plan>,
    spoil: Spoil,
}

/// The change to the structs of a correct producer.
enum Spoil {
    Schema(Box<dyn Fn(&mut ArrowSchema)>),
    Array(Box<dyn Fn(&mut ArrowDeviceArray)>),
}

/// Returns every hostile struct with a single mistake.
pub fn all() -> Vec<Hostile> {
    let mut all = arrays::members();
    all.extend(arrays::too_short());
    all.extend(arrays::devices());
    all.extend(arrays::trees());
    all.extend(schemas::members());
    all.extend(schemas::trees());
    all
}

impl Hostile {
    fn of_schema(
        name: impl Into<String>,
        plan: &Arc<Plan>,
        owed: Owed,
        spoil: impl Fn(&mut ArrowSchema) + 'static,
    ) -> Self {
        let spoil = Spoil::Schema(Box::new(spoil));
        Self { name: format!("schema {}", name.into()), owed, plan: plan.clone(), spoil }
    }

    fn of_array(
        name: impl Into<String>,
        plan: &Arc<Plan>,
        owed: Owed,
        spoil: impl Fn(&mut ArrowDeviceArray) + 'static,
    ) -> Self {
        let spoil = Spoil::Array(Box::new(spoil));
        Self { name: format!("array {}", name.into()), owed, plan: plan.clone(), spoil }
    }

    /// Whether the schema is wrong, and not the array.
    pub fn is_schema(&self) -> bool {
        matches!(self.spoil, Spoil::Schema(_))
    }

    /// Passes the structs, and checks that the importer does what it owes.
    pub fn check(&self, importer: &dyn Importer) -> Verdict {
        match &self.spoil {
            Spoil::Schema(spoil) => self.check_schema(importer, spoil),
            Spoil::Array(spoil) => self.check_array(importer, spoil),
        }
    }

    fn check_schema(&self, importer: &dyn Importer, spoil: &dyn Fn(&mut ArrowSchema)) -> Verdict {
        let ledger = Ledger::new();
        let mut schema = producer::schema(&self.plan, &ledger);
        let mut original = consumer::copy_of(&schema);
        spoil(&mut schema);
        let was_released = schema.is_released();
        let outcome = importer.schema(&mut schema);
        self.judge(outcome.map(drop))?;
        require(schema.is_released(), || "the source was not marked as released".into())?;
        if was_released {
            require(ledger.base_releases() == 0, || "a released struct was released".into())?;
            consumer::release(consumer::move_out(&raw mut original))?;
        }
        ledger.settle(1)
    }

    fn check_array(
        &self,
        importer: &dyn Importer,
        spoil: &dyn Fn(&mut ArrowDeviceArray),
    ) -> Verdict {
        let schema = importer.schema(&mut producer::schema(&self.plan, &Ledger::new()));
        let schema = schema.map_err(|error| error.to_string())?;
        let ledger = Ledger::new();
        let base = producer::array_in_manner(&self.plan, &ledger, Manner::AllByTheBase);
        let mut array = producer::on_device(base, 1, -1);
        let mut original = consumer::copy_of(&array.array);
        spoil(&mut array);
        let was_released = array.is_released();
        let outcome = importer.array(&mut array, &schema);
        let released = ledger.base_releases();
        let is_early = outcome.is_ok() && released > 0;
        self.judge(outcome.map(drop))?;
        require(!is_early, || "released while its consumer has it".into())?;
        require(array.is_released(), || "the source was not marked as released".into())?;
        if was_released {
            require(ledger.base_releases() == 0, || "a released struct was released".into())?;
            consumer::release(consumer::move_out(&raw mut original))?;
        }
        ledger.settle(1)
    }

    fn judge(&self, outcome: Result<()>) -> Verdict {
        let error = match (&self.owed, outcome) {
            (Owed::Either, _) | (Owed::Acceptance, Ok(())) => return Ok(()),
            (Owed::Acceptance, Err(error)) => return Err(format!("refused: {error}")),
            (_, Ok(())) => return Err("accepted".into()),
            (_, Err(error)) => error,
        };
        let (Owed::Refusal(kind, _) | Owed::RefusalAnywhere(kind)) = &self.owed else {
            return Ok(());
        };
        require(error.kind() == *kind, || format!("{error} and not {kind:?}"))?;
        let Owed::Refusal(_, place) = &self.owed else { return Ok(()) };
        let named = error.place().cloned().unwrap_or(NodePath::ROOT);
        require(named == *place, || format!("{error} names {named} and not {place}"))
    }
}

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hostile({}, owed {:?})", self.name, self.owed)
    }
}

/// Returns a refusal at the node that these steps lead to.
fn refusal(kind: ErrorKind, steps: &[Step]) -> Owed {
    Owed::Refusal(kind, NodePath::new(steps.iter().copied()))
}

/// Returns the plan of the node that these steps lead to.
fn plan_at<'a>(plan: &'a Plan, steps: &[Step]) -> &'a Plan {
    steps.iter().fold(plan, |plan, step| match step {
        Step::Child(index) => &plan.children[*index],
        _ => plan.dictionary.as_deref().unwrap(),
    })
}

/// Returns the name of a case: the type of a node, its place, and the mistake.
fn named(plan: &Plan, steps: &[Step], what: &str) -> String {
    let format = plan.format.to_string_lossy();
    format!("{format} at {}: {what}", NodePath::new(steps.iter().copied()))
}

/// Returns a struct with a column of every layout.
fn every_layout() -> Arc<Plan> {
    let number = || Box::new(Kind::Fixed("l", 8));
    let fields = || vec![Kind::Fixed("s", 2), Kind::Text("u", 4)];
    let columns = vec![
        Kind::Null,
        Kind::Bits,
        Kind::Fixed("i", 4),
        Kind::Text("U", 8),
        Kind::Views("vu"),
        Kind::List("+l", 4, Box::new(Kind::Text("z", 4))),
        Kind::ListView("+vL", 8, number()),
        Kind::FixedList(2, number()),
        Kind::Struct(fields()),
        Kind::Map(Box::new(Kind::Text("u", 4)), number()),
        Kind::Sparse(fields()),
        Kind::Dense(fields()),
        Kind::Dictionary("c", 1, Box::new(Kind::List("+l", 4, number()))),
        Kind::RunEnds("i", 4, number()),
    ];
    Arc::new(Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted))
}

/// Returns a batch whose columns have nothing below them. Importers may handle such batches in a
/// way of their own. Some columns stand beside others of their type.
fn plain_columns() -> Arc<Plan> {
    let number = || Kind::Fixed("l", 8);
    let text = || Kind::Text("u", 4);
    let empty = || Kind::Struct(Vec::new());
    let columns = vec![
        number(),
        number(),
        number(),
        text(),
        text(),
        Kind::Bits,
        Kind::Null,
        empty(),
        number(),
    ];
    Arc::new(Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted))
}
