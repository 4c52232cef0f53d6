//! What the tests share: the device, or the reason why there is none.

use std::path::Path;
use std::sync::Arc;

use arrow_device::Device;
use arrow_device_testkit::application::webgpu::{WebGpu, library_file};
use arrow_device_testkit::process;
use arrow_device_testkit::required::skip;
use arrow_device_webgpu::{Handles, load_library, open_from};

/// The first device; `None` where there is no WebGPU, which is a failure where it is required.
pub(crate) fn device() -> Option<Device> {
    is_there().then(|| arrow_device_webgpu::open(0).unwrap())
}

pub(crate) fn is_there() -> bool {
    if let Some(file) = library_file() {
        // SAFETY: the file is a library for WebGPU.
        unsafe { load_library(file) }.unwrap();
    }
    match arrow_device_webgpu::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("webgpu", &reason.to_string());
            false
        }
    }
}

/// The application's part, and the handles of its device.
pub(crate) fn application() -> Option<(Arc<WebGpu>, Handles)> {
    is_there().then(|| handles_of(Arc::new(WebGpu::new().unwrap())))
}

fn handles_of(web: Arc<WebGpu>) -> (Arc<WebGpu>, Handles) {
    let (shared, kept) = (web.clone(), web.clone());
    let handles = Handles::new(web.device(), web.queue())
        .with_lookup(move |name| shared.find(name))
        .with_loss(web.is_lost())
        .kept_by(kept);
    (web, handles)
}

/// A device of the application's, opened by the library.
pub(crate) fn opened() -> Option<(Arc<WebGpu>, Device)> {
    let (web, handles) = application()?;
    // SAFETY: the handles keep what they are the handles of, and were made together.
    Some((web, unsafe { open_from(handles) }.unwrap()))
}

/// Another driver of Vulkan, which comes with the browser. Dawn needs more than Mesa's driver for
/// the processor has in Debian 12.
pub(crate) const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

/// Runs a test again, in a process where Dawn is the library.
pub(crate) fn with_dawn(body: impl FnOnce()) {
    if process::is_child() {
        return body();
    }
    let Some(dawn) = arrow_device_testkit::application::webgpu::dawn_file() else {
        return skip("dawn", "there is no Dawn");
    };
    let driver = std::env::var("ARROW_DEVICE_SWIFTSHADER").unwrap_or(SWIFTSHADER.to_owned());
    if !Path::new(&driver).exists() {
        return skip("chromium", "there is no chromium, and so no SwiftShader");
    }
    let child = process::Child::of_this_test().env("ARROW_DEVICE_WEBGPU_LIBRARY", dawn);
    let child = child.env("VK_DRIVER_FILES", &driver).env("VK_ICD_FILENAMES", &driver);
    println!("{}", child.run().expect_success().stdout);
}
