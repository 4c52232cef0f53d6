//! What an application does itself with the runtime of its device, so that tests and examples can
//! show a library and an application at work on one device: objects that the application makes, and
//! gates that hold its queues back.
//!
//! Nothing here knows this library. The features `opencl` and `vulkan` switch the runtimes on;
//! their loaders are loaded when an application is made.

#[cfg(feature = "opencl")]
pub mod opencl;
#[cfg(feature = "vulkan")]
pub mod vulkan;

/// What an application's calls return: an error says in words which call failed.
pub type Attempt<T> = std::result::Result<T, Box<dyn std::error::Error>>;
