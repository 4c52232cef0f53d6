//! A machine without Vulkan: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the loader or the drivers.

use arrow_device::ErrorKind;
use arrow_device_testkit::application::vulkan::Vulkan;
use arrow_device_testkit::process::{self, Child};

use crate::support;

fn ask_everything() {
    let errors = [
        arrow_device_vulkan::is_available().unwrap_err(),
        arrow_device_vulkan::devices().unwrap_err(),
        arrow_device_vulkan::open(0).unwrap_err(),
        arrow_device_vulkan::open_with(1, arrow_device_vulkan::Placement::DeviceOnly).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DriverMissing, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn without_a_loader_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_VULKAN_LIBRARY", "/nonexistent/libVulkan.so.1")
        .run()
        .expect_success()
        .stdout;
    assert_eq!(text.matches("said: ").count(), 4, "{text}");
    assert!(text.contains("libvulkan1"), "{text}");
}

#[test]
fn a_library_that_is_not_vulkan_is_an_error() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_VULKAN_LIBRARY", "libc.so.6")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("vkGetInstanceProcAddr"), "{text}");
}

#[test]
fn without_a_driver_the_error_has_the_code_of_the_loader() {
    if process::is_child() {
        return ask_everything();
    }
    if !support::is_there() {
        return;
    }
    let text = Child::of_this_test()
        .env("VK_DRIVER_FILES", "/nonexistent")
        // Loaders before 1.3.207 know the older name.
        .env("VK_ICD_FILENAMES", "/nonexistent")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("-9: VK_ERROR_INCOMPATIBLE_DRIVER"), "{text}");
    assert!(text.contains("mesa-vulkan-drivers"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if process::is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_vulkan::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}

/// The devices that the library opens by itself are under no messenger. The layer prints what it
/// has to say.
#[test]
fn the_validation_layer_has_nothing_to_say_of_the_librarys_own_devices() {
    use arrow_device::{Array, DataType};
    if process::is_child() {
        let device = arrow_device_vulkan::open(0).unwrap();
        let queue = device.open_queue().unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        array.copy_to(&queue).unwrap().to_host().unwrap().validate().unwrap();
        println!("said: all is done");
        return;
    }
    if !support::is_there() || !Vulkan::has_layer() {
        return;
    }
    let text = Child::of_this_test()
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("said: all is done"), "{text}");
    assert!(!text.contains("VUID") && !text.contains("Validation"), "{text}");
}
