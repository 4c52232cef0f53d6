//! The runtime API of HIP: the exported functions.
//!
//! The prototypes are those of `hip_runtime_api.h`; `tests/driver/headers.rs` compares them. A
//! function's comment says where its codes come from: the manual's page of that function, in our
//! words.
//!
//! All are called as C calls them: pointers are null or point to what the prototype says, and
//! nothing else is believed.

mod call;
mod device;
mod graph;
#[cfg(all(target_os = "linux", not(miri)))]
mod mapped;
mod memory;
mod pointer;
mod pool;
mod stream;
mod transfer;

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use device::VERSION;
