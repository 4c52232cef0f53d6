//! The WebAssembly module of the package for JavaScript (`js` in the repository).
//!
//! WebGPU is an interface of JavaScript: a `GPUBuffer` is an object of the page, which no module
//! has in its memory. The module knows each buffer and each device by a number that the page gave
//! out, and the page does what the driver asks for. JavaScript calls the functions of `exports`,
//! which read Arrow IPC onto the GPU, write batches as Arrow IPC, and exchange arrays as C structs
//! in this module's memory.
//!
//! A page may not block. No function here waits: a copy to the host is polled each time that the
//! page has been told by its GPU that work is done.
//!
//! On other targets than WebAssembly the place of the page is taken by a stand-in, whose GPU is the
//! host's memory, so that the driver is judged by the suite of `arrow-device-testkit`.

#[cfg(any(test, target_family = "wasm"))]
mod driver;
#[cfg(target_family = "wasm")]
mod exports;
#[cfg(target_family = "wasm")]
mod objects;
#[cfg(target_family = "wasm")]
mod page;
#[cfg(test)]
#[cfg(not(target_family = "wasm"))]
#[path = "stand_in.rs"]
mod page;
#[cfg(test)]
#[cfg(not(target_family = "wasm"))]
mod suite;
