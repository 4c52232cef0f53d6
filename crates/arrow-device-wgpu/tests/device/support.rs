//! What the tests share: an application with its device, or the reason why there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::{Device, Queue};
use arrow_device_testkit::application::wgpu::Wgpu;
use arrow_device_testkit::required::skip;
use arrow_device_wgpu::{Opening, open_from};

/// An application; `None` where wgpu finds no device, which is a failure where Vulkan is required.
pub(crate) fn application() -> Option<Wgpu> {
    match Wgpu::new() {
        Ok(application) => Some(application),
        Err(reason) => {
            skip("vulkan", &reason.to_string());
            None
        }
    }
}

/// An application, and its device.
pub(crate) fn opened() -> Option<(Wgpu, Device)> {
    let application = application()?;
    let device = open_from(&application.device, &application.queue).unwrap();
    Some((application, device))
}

/// A device whose application tells of the loss, and its queue.
pub(crate) fn bench() -> Option<(Device, Queue)> {
    let application = application()?;
    let is_lost = Arc::new(AtomicBool::new(false));
    let flag = is_lost.clone();
    application.device.set_device_lost_callback(move |_, _| flag.store(true, Ordering::SeqCst));
    let opening = Opening::new(&application.device, &application.queue);
    let device = opening.with_loss(is_lost).open().unwrap();
    let queue = device.open_queue().unwrap();
    Some((device, queue))
}
