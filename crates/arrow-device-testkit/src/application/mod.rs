//! The part of an application that works with the runtime of its device directly: objects that the
//! application makes, and gates that hold its queues back. Tests and examples use it to show this
//! library and an application at work on one device.
//!
//! Nothing here uses this library. The features `opencl`, `vulkan`, `webgpu` and `wgpu` switch the
//! runtimes on. Their loaders are loaded when an application is made.

#[cfg(feature = "opencl")]
pub mod opencl;
#[cfg(feature = "vulkan")]
pub mod vulkan;
#[cfg(feature = "webgpu")]
pub mod webgpu;
#[cfg(feature = "wgpu")]
pub mod wgpu;

/// The result of an application's call. An error says in words which call failed.
pub type Attempt<T> = std::result::Result<T, Box<dyn std::error::Error>>;
