//! The command with the drivers of GPUs: simulated ones, and none.

use std::process::{Command, Output};

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support;
#[cfg(feature = "files")]
use crate::support::files;

const CUDA: &str = "ARROW_DEVICE_CUDA_LIBRARY";
const HIP: &str = "ARROW_DEVICE_HIP_LIBRARY";

/// The command where there are no drivers but those that are named later.
fn command() -> Command {
    let mut command = support::arrow_device();
    command.env(CUDA, "/nowhere/libcuda.so").env(HIP, "/nowhere/libamdhip64.so");
    command.env("ARROW_DEVICE_SIMULATED_DRIVER_CONFIG", "devices=2 memory=268435456");
    command
}

fn printed(output: Output) -> String {
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn devices_of_simulated_drivers_are_listed_and_show_the_demonstration() {
    let host = printed(support::run(&["demo"]));
    let table = |text: &str| {
        text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect::<Vec<_>>()
    };
    for (vendor, variable, types) in [
        (Vendor::Cuda, CUDA, &[("cuda", 2), ("cuda_host", 3), ("cuda_managed", 13)][..]),
        (Vendor::Hip, HIP, &[("rocm", 10), ("rocm_host", 11)]),
    ] {
        let driver = Simulated::builder(vendor).load();
        let run = |arguments: &[&str]| {
            printed(command().env(variable, driver.path()).args(arguments).output().unwrap())
        };
        let json = run(&["devices", "--json"]);
        let devices = types.iter().flat_map(|of_type| [(of_type, 0), (of_type, 1)]);
        for ((name, value), number) in devices {
            let device = format!("{name}:{number}");
            assert!(json.contains(&format!("\"device\": \"{device}\"")), "{device}: {json}");
            let told = run(&["demo", "--device", &device]);
            assert!(told.contains("nothing is left alive."), "{device}: {told}");
            assert!(told.contains(&format!("ArrowDeviceArray of device type {value}.")), "{told}");
            assert!(told.contains(&format!("told a queue of {device} to")), "{told}");
            assert_eq!(table(&told), table(&host), "{device}");
        }
        assert!(!json.contains("cannot_be_opened"), "{json}");
    }
}

#[cfg(feature = "files")]
#[test]
fn a_file_comes_out_of_the_simulated_drivers_as_it_was() {
    use crate::support::text;

    let folder = support::Folder::new();
    let (input, out) = (folder.path("in.arrows"), folder.path("out.arrows"));
    files::write_stream(&input, &[files::batch(0, 1000), files::batch(1000, 1)]);
    let drivers = [Vendor::Cuda, Vendor::Hip].map(|vendor| Simulated::builder(vendor).load());
    for way in ["cuda:0", "cuda_host:0", "cuda_managed:0", "rocm:1", "rocm_host:1", "cuda:0,rocm:0"]
    {
        let output = command()
            .env(CUDA, drivers[0].path())
            .env(HIP, drivers[1].path())
            .args(["copy", text(&input), text(&out), "--through", way])
            .output()
            .unwrap();
        assert!(printed(output).starts_with("1,001 rows in "), "{way}");
        assert!(files::read(&input) == files::read(&out), "{way}");
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn a_gpu_without_managed_memory_has_no_managed_device() {
    let driver = Simulated::builder(Vendor::Cuda).load();
    let output = command()
        .env(CUDA, driver.path())
        .env("ARROW_DEVICE_SIMULATED_DRIVER_CONFIG", "managed=0")
        .arg("devices")
        .output()
        .unwrap();
    let table = printed(output);
    let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("cuda:0").contains(" yes "), "{table}");
    assert!(line("cuda_managed ").contains(" no "), "{table}");
}

#[test]
fn a_machine_without_a_driver_is_told_why_each_type_is_missing() {
    let table = printed(command().arg("devices").output().unwrap());
    let of_the_same =
        [("cuda_host ", "as cuda"), ("cuda_managed ", "as cuda"), ("rocm_host ", "as rocm")];
    for (name, reason) in [("cuda ", "install"), ("rocm ", "install")].iter().chain(&of_the_same) {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains(" no ") && line.contains(reason), "{line}");
    }
    let refused = command().args(["demo", "--device", "cuda:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.starts_with("arrow-device: cannot open cuda:0: "), "{refused}");
}
