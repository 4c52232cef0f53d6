//! Device streams as tables and plans of DataFusion.
//!
//! | to | use |
//! |---|---|
//! | query data that lies on a device | `DeviceTable`, a `TableProvider` over streams or batches |
//! | run a part of a plan on a device | `OnDevice`, an `ExecutionPlan` that moves its input there and back, with a function between |
//! | have the results of a query on a device | `results`, an asynchronous stream of arrays |
//!
//! To the compiler, the types of two releases of DataFusion have nothing in common. So there is a
//! module for each release, and all modules have the same names in them. A feature switches each
//! module on: `datafusion-54` (arrow-rs 58, Rust 1.88) the module `v54`, and `datafusion-55`
//! (arrow-rs 59, Rust 1.94) the module `v55`. No feature is on by default, because only the user
//! knows which release the rest of the program uses. DataFusion's own features are those that the
//! program asks DataFusion for. The feature `sql` is for the tests and examples of this crate.
#![cfg_attr(all(feature = "datafusion-55", feature = "sql"), doc = "```")]
#![cfg_attr(not(all(feature = "datafusion-55", feature = "sql")), doc = "```ignore")]
//! use std::sync::Arc;
//!
//! use arrow_device::prelude::*;
//! use arrow_device::types::Int64;
//! use arrow_device_datafusion::v55::DeviceTable;
//! use datafusion_55::prelude::SessionContext;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! // For a copy to a GPU, name a queue of the GPU.
//! let ids = Array::of::<Int64>([Some(1), Some(2), Some(3)])?;
//! let batch = Batch::from_columns([("id", ids)])?.copy_to(&Queue::host())?;
//! let table = DeviceTable::from_batches(&batch.schema()?, vec![vec![batch]])?;
//!
//! let context = SessionContext::new();
//! context.register_table("on_device", Arc::new(table))?;
//! let sum = context.sql("SELECT SUM(id) AS sum FROM on_device WHERE id > 1").await?;
//! assert_eq!(sum.to_string().await?.lines().nth(3), Some("| 5   |"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What moves, and when
//!
//! Nothing is moved before a batch is asked for. Then, for each partition, as many batches as
//! `with_prefetch` says are on their way besides the one that is used, which bounds the memory that
//! is taken on the device. Data that is not there yet is awaited on the executor that DataFusion
//! runs on (tokio), and no thread is blocked. Where data is always there, a scan lets other tasks
//! run now and then, as the sources of DataFusion do. Data that comes to the host is checked there,
//! at the cost of [`Array::validate`](arrow_device::Array::validate), because arrow-rs relies on
//! valid data. A stream that is dropped, by a `LIMIT` or with its task, gives up the batches that
//! are on their way.
//!
//! `docs/engines.md` in the repository has an example with a plan that works on the device.

#![allow(clippy::duplicate_mod, reason = "the releases of DataFusion share one source")]

#[cfg(feature = "datafusion-54")]
pub mod v54;
#[cfg(feature = "datafusion-55")]
pub mod v55;

/// Runs the programs of a chapter of the book as tests.
#[cfg(all(doctest, feature = "datafusion-55", feature = "sql"))]
#[doc = include_str!("../../../book/src/engines.md")]
struct Chapter;

/// Runs the snippets of a page as tests.
#[cfg(all(doctest, feature = "datafusion-55", feature = "sql"))]
#[doc = include_str!("../../../docs/engines.md")]
struct Engines;
