//! What the tests share: a device under the validation layer, or the reason why there is none.

use std::ops::Deref;
use std::sync::Arc;

use arrow_device::Device;
use arrow_device_testkit::application::vulkan::Vulkan;
use arrow_device_testkit::release_until;
use arrow_device_testkit::required::{is_required, skip};
use arrow_device_vulkan::{Handles, Placement, open_from};

use crate::shader::handles;

/// A device of the test's own, opened by the library. At the end everything has to be destroyed,
/// and the validation layer must have said nothing.
pub(crate) struct Bench {
    device: Option<Device>,
    vulkan: Option<Arc<Vulkan>>,
}

impl Bench {
    /// `None` where there is no Vulkan, which is a failure where it is required.
    pub(crate) fn new() -> Option<Self> {
        Self::with(Placement::Automatic)
    }

    pub(crate) fn with(placement: Placement) -> Option<Self> {
        Self::by(placement, |handles| handles)
    }

    /// The same, with handles that were changed before the library gets them.
    pub(crate) fn by(
        placement: Placement,
        change: impl FnOnce(Handles) -> Handles,
    ) -> Option<Self> {
        let vulkan = vulkan()?;
        // SAFETY: the handles keep what they are the handles of, whose lock everybody takes.
        let device = unsafe { open_from(change(handles(&vulkan)), placement) }.unwrap();
        Some(Self { device: Some(device), vulkan: Some(vulkan) })
    }

    /// A device whose memory other processes can open; `None` where the driver has no such memory.
    pub(crate) fn shareable(placement: Placement) -> Option<(Self, Device)> {
        let bench = Self::by(placement, Handles::with_external_memory)?;
        if !bench.vulkan().shares_memory {
            println!("skipped: the driver has no VK_KHR_external_memory_fd");
            return None;
        }
        let device = Device::shareable(&bench).unwrap();
        Some((bench, device))
    }

    pub(crate) fn vulkan(&self) -> &Arc<Vulkan> {
        self.vulkan.as_ref().unwrap()
    }
}

impl Deref for Bench {
    type Target = Device;

    fn deref(&self) -> &Device {
        self.device.as_ref().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let (device, vulkan) = (self.device.take(), self.vulkan.take().unwrap());
        drop(device);
        if std::thread::panicking() {
            return;
        }
        finish(vulkan);
    }
}

/// Destroys a device, which nobody may use any more. The layer must have said nothing, then either.
pub(crate) fn finish(vulkan: Arc<Vulkan>) {
    let messages = vulkan.messages();
    let is_alone = release_until(|| Arc::strong_count(&vulkan) == 1);
    assert!(is_alone, "something still holds the device");
    drop(vulkan);
    let messages = messages.lock().unwrap();
    assert!(messages.is_empty(), "the validation layer said: {messages:#?}");
}

/// A device under the validation layer.
pub(crate) fn vulkan() -> Option<Arc<Vulkan>> {
    if !is_there() {
        return None;
    }
    let has_layer = Vulkan::has_layer();
    assert!(
        has_layer || !is_required("vulkan"),
        "vulkan is required: no validation layer is installed"
    );
    if !has_layer {
        println!("skipped: nobody looks for mistakes, because no validation layer is installed");
    }
    Some(Vulkan::new(has_layer).unwrap())
}

pub(crate) fn is_there() -> bool {
    match arrow_device_vulkan::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("vulkan", &reason.to_string());
            false
        }
    }
}
