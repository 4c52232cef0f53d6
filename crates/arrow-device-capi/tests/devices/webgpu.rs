//! WebGPU devices, through the header's functions.

use std::ptr;

use arrow_device::{DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::application::webgpu::{WebGpu, library_file};
use arrow_device_testkit::required::skip;

use crate::support::face::made;
use crate::support::objects::{copy, numbers, values_of};

/// A device is opened by its place in the list, and found by the handle that its arrays carry.
#[test]
fn a_webgpu_device_is_opened_and_found_by_its_handle() {
    if let Some(file) = library_file() {
        // SAFETY: the file is a library for WebGPU.
        unsafe { arrow_device_webgpu::load_library(file) }.unwrap();
    }
    if let Err(reason) = arrow_device_webgpu::is_available() {
        return skip("webgpu", &reason.to_string());
    }
    let device_type = DeviceType::WEBGPU.0;
    let open = |id| made(|out, error| unsafe { ardev_device_open(device_type, id, out, error) });
    let device = open(0).unwrap();
    let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
    let there = copy(&numbers(3), queue, ptr::null()).unwrap();
    assert_eq!(values_of(&copy(&there, ptr::null(), queue).unwrap()), [3, 4, 5]);

    let (handle, _) =
        arrow_device_webgpu::handles_of(&arrow_device_webgpu::open(0).unwrap()).unwrap();
    let id = handle.as_ptr().addr() as i64;
    let again = open(id).unwrap();
    let found = made(|out, error| unsafe {
        ardev_device_open_for(device_type, ptr::null(), id, out, error)
    })
    .unwrap();
    for other in [again, found] {
        let lane = made(|out, error| unsafe { ardev_queue_open(other, out, error) }).unwrap();
        let moved = copy(&there, lane, ptr::null()).unwrap();
        assert_eq!(values_of(&copy(&moved, ptr::null(), lane).unwrap()), [3, 4, 5]);
        drop(moved);
        unsafe { ardev_queue_free(lane) };
        unsafe { ardev_device_free(other) };
    }
    assert_eq!(open(1000).unwrap_err().kind(), ErrorKind::DeviceMissing);
    let memory = made(|out, error| unsafe {
        ardev_device_open_with(device_type, 0, ARDEV_MEMORY_HOST_VISIBLE, out, error)
    });
    assert_eq!(memory.unwrap_err().kind(), ErrorKind::Unsupported);
    drop(there);
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(device) };
}

/// An application's device is opened by its handles, and only a device of one queue has no choice
/// of memory.
#[test]
fn a_wgpu_device_of_the_application_is_opened_in_its_queue() {
    let Some(file) = library_file() else {
        return skip("webgpu", "there is no WebGPU library");
    };
    // SAFETY: the file is a library for WebGPU.
    unsafe { arrow_device_webgpu::load_library(&file) }.unwrap();
    let web = match WebGpu::of_library(&file) {
        Ok(web) => web,
        Err(reason) => return skip("webgpu", &reason.to_string()),
    };
    let (context, handle) = (web.queue().as_ptr(), web.device().as_ptr());
    let device_type = DeviceType::WEBGPU.0;
    let open = |memory| {
        made(|out, error| unsafe {
            ardev_device_open_in(device_type, context, handle, memory, out, error)
        })
    };
    let refused = open(ARDEV_MEMORY_HOST_VISIBLE);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    let device = open(0).unwrap();
    let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
    let there = copy(&numbers(3), queue, ptr::null()).unwrap();
    assert_eq!(values_of(&copy(&there, ptr::null(), queue).unwrap()), [3, 4, 5]);
    drop(there);
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(device) };
    let patience = std::time::Duration::from_secs(60);
    arrow_device::deferred::wait_until_released(patience).unwrap();
    drop(web);
}
