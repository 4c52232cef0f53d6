//! A stand-in for Qualcomm's FastRPC library and for a Hexagon DSP.
//!
//! * The shared library exports `rpcmem_alloc`, `rpcmem_alloc2`, `rpcmem_free`, `rpcmem_to_fd`,
//!   `fastrpc_mmap` and `fastrpc_munmap`. An allocation is a file of memory (`memfd_create`), where
//!   that of a phone is a `dma-buf`. [`library`] names the file.
//! * [`Dsp`] is the DSP: another process, whose program (`dsp/dsp.c`) does the commands of a ring
//!   in shared memory. The program is compiled for this machine, or with
//!   `ARROW_DEVICE_HEXAGON_DSP=qemu` for a Hexagon DSP, and then runs under `qemu-hexagon`.
//! * [`memory`] names the functions, counts allocations and mappings, and makes them fail.
//!
//! The program on the DSP is not called by FastRPC, and there is no real-time system: the commands
//! are of this crate's own making.
#![cfg(target_os = "linux")]

pub mod memory;

mod dsp;
mod program;
mod ring;

use std::path::PathBuf;

pub use dsp::{Dsp, Work};

/// Returns the path of the shared library, for `ARROW_DEVICE_HEXAGON_LIBRARY`.
///
/// # Panics
/// Panics where the library is neither beside the running program nor a folder above.
#[allow(clippy::panic)]
pub fn library() -> PathBuf {
    const BUILT: &str = "libsimulated_hexagon.so";
    let program = std::env::current_exe().unwrap_or_default();
    let mut places = program
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(BUILT), folder.join("deps").join(BUILT)]);
    let found = places.find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("{BUILT} is not beside {}", program.display()))
}
