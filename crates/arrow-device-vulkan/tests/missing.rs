//! A machine without Vulkan: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the loader or the drivers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
#[path = "../examples/shader/vk.rs"]
mod vk;

use std::process::Command;

use arrow_device::ErrorKind;

const CHILD: &str = "ARROW_DEVICE_VULKAN_TEST_CHILD";

/// Runs one test of this program in a child with this variable, and returns what it printed.
fn child(test: &str, name: &str, value: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env(name, value)
        // Loaders before 1.3.207 know the older name.
        .envs((name == "VK_DRIVER_FILES").then_some(("VK_ICD_FILENAMES", value)))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

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
    if is_child() {
        return ask_everything();
    }
    let test = "without_a_loader_the_error_says_what_to_install";
    let text = child(test, "ARROW_DEVICE_VULKAN_LIBRARY", "/nonexistent/libVulkan.so.1");
    assert_eq!(text.matches("said: ").count(), 4, "{text}");
    assert!(text.contains("libvulkan1"), "{text}");
}

#[test]
fn a_library_that_is_not_vulkan_is_an_error() {
    if is_child() {
        return ask_everything();
    }
    let text = child(
        "a_library_that_is_not_vulkan_is_an_error",
        "ARROW_DEVICE_VULKAN_LIBRARY",
        "libc.so.6",
    );
    assert!(text.contains("vkGetInstanceProcAddr"), "{text}");
}

#[test]
fn without_a_driver_the_error_has_the_code_of_the_loader() {
    if is_child() {
        return ask_everything();
    }
    if !support::is_there() {
        return;
    }
    let test = "without_a_driver_the_error_has_the_code_of_the_loader";
    let text = child(test, "VK_DRIVER_FILES", "/nonexistent");
    assert!(text.contains("-9: VK_ERROR_INCOMPATIBLE_DRIVER"), "{text}");
    assert!(text.contains("mesa-vulkan-drivers"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_vulkan::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}

/// The devices that the library opens by itself are under no messenger. The layer prints what it has to say.
#[test]
fn the_validation_layer_has_nothing_to_say_of_the_librarys_own_devices() {
    use arrow_device::{Array, DataType};
    if is_child() {
        let device = arrow_device_vulkan::open(0).unwrap();
        let queue = device.open_queue().unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        array.copy_to(&queue).unwrap().to_host().unwrap().validate().unwrap();
        println!("said: all is done");
        return;
    }
    if !support::is_there() || !vk::Vulkan::has_layer() {
        return;
    }
    let test = "the_validation_layer_has_nothing_to_say_of_the_librarys_own_devices";
    let text = child(test, "VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    assert!(text.contains("said: all is done"), "{text}");
    assert!(!text.contains("VUID") && !text.contains("Validation"), "{text}");
}
