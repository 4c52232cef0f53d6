//! The software device: device code tested without a device.

pub mod catalogue;

mod allocation;
mod builder;
mod clock;
mod driver;
mod engine;
mod event_table;
mod events;
mod fault;
mod kernel;
mod memory;
mod pump;
mod queue;
mod random;
mod report;
mod run;
mod sim;
mod site;
mod submit;
mod table;
mod track;

pub use builder::{Builder, Kind, for_each_fault, sweep};
pub use driver::SimDriver;
pub use event_table::EventTable;
pub use fault::Call;
pub use kernel::{Kernel, KernelMemory};
pub use memory::Protection;
pub use pump::Pump;
pub use report::{Action, Actor, Mistake, Report, Subject};
pub use run::Step;
pub use sim::Sim;
pub use site::Site;
