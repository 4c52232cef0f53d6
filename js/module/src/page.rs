//! What the page does for the module. `js/page.js` has the functions.

use crate::driver::{PageRegion, Way};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Makes a `GPUBuffer` of this many bytes, a multiple of 4, and returns its number. A buffer
    /// that the GPU has no memory for gets a number, too: the page learns of the lack later.
    pub(crate) safe fn create(device: u32, size: f64) -> u32;
    /// Destroys a buffer that `create` made. What was submitted still uses the buffer to its end.
    pub(crate) safe fn destroy(buffer: u32);
    /// How many bytes a buffer has. Negative for a number that stands for no buffer.
    pub(crate) safe fn size(buffer: u32) -> f64;
    /// Notes where the work stands that was submitted to the device by now, by anybody, and calls
    /// `device_passed` once all of it is done and its bytes have come down. Numbers grow.
    pub(crate) safe fn mark(device: u32) -> f64;
    /// The last mark if nothing was submitted to the device since, or else a new one.
    pub(crate) safe fn latest(device: u32) -> f64;
    /// Submits copies.
    ///
    /// # Safety
    /// UNS-21 and UNS-22 hold for the regions, which are read in the call.
    pub(crate) fn copy(device: u32, way: Way, regions: *const PageRegion, count: usize);
}
