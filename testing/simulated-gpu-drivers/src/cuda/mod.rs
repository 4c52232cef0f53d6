//! The driver API of CUDA: the exported functions. Each is a name, its arguments for the log, and
//! what the machine does.
//!
//! The prototypes are those of `cuda.h`; `tests/driver/headers.rs` compares them. A function's
//! comment says where its codes come from: the manual's page of that function, in our words.
//!
//! All are called as C calls them: pointers are null or point to what the prototype says, and
//! nothing else is believed.

mod context;
mod device;
mod graph;
#[cfg(all(target_os = "linux", not(miri)))]
mod mapped;
mod memory;
mod module;
mod pointer;
mod pool;
mod stream;
mod transfer;
