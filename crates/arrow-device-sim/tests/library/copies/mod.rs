//! The copy engine on software devices of every kind: order, faults, and what it costs. That the
//! values are right, on these and all other devices and over every pair, is tested in
//! `device-pairs`.

mod coarse;
mod costs;
mod faults;
mod order;
mod ownership;
mod polled;
mod polled_memory;
mod polled_units;
mod words;
