//! The VPI module that a Verilog simulator loads for `arrow-device-vpi`.
//!
//! A simulator loads the shared library of this crate (`libarrow_device_vpi_module.so`) as any VPI
//! module: it finds `vlog_startup_routines`. The module finds the memory and the registers of the
//! design by their names, and does what a host program asks for over a Unix socket. Simulated time
//! stands still, and the process sleeps, while there is nothing to do.
//!
//! `ARROW_DEVICE_VPI_SOCKET` in the environment of the simulator says where the host is:
//!
//! | value | meaning |
//! |---|---|
//! | `-` | the standard input is a socket, and the simulation ends when the host is gone |
//! | a path | the module makes a socket there and serves one host after the other |
//!
//! Without the variable the module does nothing, so a simulator can load the module in every run.
//! Programs do not use this crate: `arrow-device-vpi` starts the simulator or connects to it.
//!
//! The functions of the VPI (`vpi_get_value` and nine others) are looked up in the simulator when
//! the module is loaded, and never linked.

#[cfg(unix)]
mod design;
#[cfg(unix)]
mod peer;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod startup;
#[cfg(unix)]
mod vpi;
