//! Devices, and what is on them: queues, events, memory.
//!
//! Applications hold the owners [`Device`], [`Queue`], [`Event`], [`Memory`] and [`Buffer`].
//! Backends implement the trait [`driver::Driver`] beneath them.

pub mod driver;

pub(crate) mod account;
mod allocator;
mod answers;
mod arrival;
mod asking;
mod awaited;
mod buffer;
pub mod deferred;
mod event;
mod granular;
mod guarded;
mod handle;
mod host;
#[cfg(all(target_os = "linux", not(miri)))]
mod host_sharing;
mod kept_blocks;
mod memory;
pub(crate) mod nesting;
mod newest;
mod numbered_list;
mod on_return;
mod owner;
mod properties;
pub(crate) mod queue;
mod raw;
mod registry;
#[cfg(target_os = "linux")]
mod sealed;
mod sharing;
mod staged;
pub(crate) mod staging;
mod turns;
mod unit_reads;
pub(crate) mod waiter;
mod waiting;
pub(crate) mod watch;

pub use account::Held;
pub use allocator::{Allocator, Recycler};
pub use awaited::AwaitedEvent;
pub use buffer::{Buffer, BufferView, Extent, KeepAlive, Location, Plain};
pub use event::Event;
pub use handle::Device;
pub use memory::Memory;
pub use queue::Queue;

pub(crate) use arrival::{Arrival, ClaimedMemory, Moment};
pub(crate) use buffer::{BytesOwner, Part, location};
pub(crate) use event::has_not_passed;
pub(crate) use granular::lead;
pub(crate) use memory::Parted;
pub(crate) use numbered_list::NumberedList;
pub(crate) use on_return::MemoryOnReturn;
pub(crate) use owner::Owner;
pub(crate) use unit_reads::{ReadsTo, UnitReads};
