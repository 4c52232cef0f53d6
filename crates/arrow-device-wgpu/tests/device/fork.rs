//! wgpu in a child of `fork`: what the parent has opened is refused there.

use arrow_device::Device;
use arrow_device_testkit::forks;
use arrow_device_testkit::process::alone;

use crate::support;

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    alone(|| {
        let Some((application, device)) = support::opened() else { return };
        // What the application holds itself is its own concern.
        std::mem::forget(application);
        let id = device.id().id;
        static ID: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
        ID.store(id, std::sync::atomic::Ordering::SeqCst);
        let open = || -> arrow_device::Result<Device> {
            arrow_device_wgpu::device_of(ID.load(std::sync::atomic::Ordering::SeqCst))
        };
        forks::a_child_refuses_what_its_parent_opened(open, &[]);
    });
}
