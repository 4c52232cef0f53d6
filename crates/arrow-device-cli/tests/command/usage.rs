//! The command as somebody at a terminal meets it.

use std::path::Path;

use crate::support;
use crate::support::{Folder, complaint, devices, output};

#[test]
fn the_demonstration_tells_every_step_and_leaves_nothing_alive() {
    let text = output(&[]);
    assert_eq!(text.lines().count(), output(&["demo"]).lines().count());
    for line in [
        "1. The producer built a record batch of 5 rows in 48 buffers on the host, and told a queue of the software device to",
        "   copy it there. It exported it as one ArrowSchema and one ArrowDeviceArray of device type 12.",
        "   An event goes along, behind the copy, for which nobody has waited.",
        "2. The consumer imported both: nothing copied, nothing read, nothing waited for.",
        "   The structs it took them from are released: true. The data is ready: false.",
        "4. It validated the structure of 18 columns and the data of all 90 values.",
        "root: struct, 5 elements from 0, 0 nulls",
        "  metadata {made by: arrow-device demo}",
        "  tags: list, 5 elements from 0, 1 null",
        "8. The producer imported them, found its own values, and released them.",
        "9. Everything was released once, on the host and on the device: nothing is left alive.",
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
    let last = "   The software device watched all of it and has nothing to report.";
    assert_eq!(text.lines().last(), Some(last));
}

#[test]
fn each_mistake_is_made_and_reported_with_the_line_that_makes_it() {
    let expected = [
        ("wait", "read without order"),
        ("release", "freed while in use"),
        ("write", "write to shared memory"),
    ];
    for (name, report) in expected {
        let text = output(&["--break", name]);
        assert!(text.lines().any(|line| line.starts_with(report)), "{text}");
        assert!(text.contains("mistakes.rs:"), "{text}");
        assert!(text.contains("1 found."), "{text}");
    }
    assert_eq!(
        output(&["demo", "--break", "wait"]).lines().next(),
        output(&["--break", "wait"]).lines().next()
    );
    let refused = complaint(&["--break", "dance"], 2);
    assert!(refused.contains("wait, release, write"), "{refused}");
}

#[test]
fn the_table_shows_every_type_as_people_read_it() {
    let text = output(&[]);
    for cell in [
        "timestamp[us, Europe/Zurich]",
        "2024-02-29T00:00:00.000000Z[Europe/Zuri… |",
        "Grace Brewster Murray Hopper",
        "-0.05",
        "2024-02-29",
        "1 month 2 days",
        "[\"red\", \"round\"]",
        "{x: 1.5, y: 1.5}",
        "{\"a\": 1, \"b\": 2}",
        "remark: \"broken\"",
        "[5, 6, 7, 8, 9]",
    ] {
        assert!(text.contains(cell), "`{cell}` is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
}

#[test]
fn the_demonstration_runs_on_every_device() {
    for device in devices() {
        let text = output(&["demo", "--device", &device]);
        let last = "9. Everything was released once, on the host and on the device: nothing is left alive.";
        assert!(text.lines().any(|line| line == last), "{device}: {text}");
        let table = |text: &str| {
            text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(table(&text), table(&output(&["demo"])), "{device}");
    }
    let missing = complaint(&["demo", "--device", "metal"], 1);
    assert!(missing.contains("cannot open metal:0"), "{missing}");
    let missing = complaint(&["--device", "ext_dev:7"], 1);
    assert!(missing.contains("`arrow-device devices` lists them"), "{missing}");
}

#[test]
fn devices_lists_all_fourteen_types_and_why_some_are_not_here() {
    let text = output(&["devices"]);
    let first_words: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for device_type in [
        "cpu",
        "cuda",
        "cuda_host",
        "opencl",
        "vulkan",
        "metal",
        "vpi",
        "rocm",
        "rocm_host",
        "ext_dev",
        "cuda_managed",
        "oneapi",
        "webgpu",
        "hexagon",
    ] {
        let is_listed = |word: &&str| word.split(':').next() == Some(device_type);
        assert!(first_words.iter().any(is_listed), "{device_type} is not in:\n{text}");
    }
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("ext_dev:0").contains("the host copies"), "{text}");
    assert!(line("cpu").contains("yes") && line("cpu").contains("iB"), "{text}");
    let of_metal = line("metal").split_whitespace().nth(1);
    assert!(cfg!(target_vendor = "apple") || of_metal == Some("no"), "{text}");
    assert!(text.trim_end().ends_with("14 types of device"), "{text}");
}

/// On a machine with nothing but the system, each row says where the missing thing comes from.
#[test]
fn each_type_that_is_not_here_says_what_is_missing() {
    let mut command = support::arrow_device();
    command.env("PATH", "/nowhere").arg("devices");
    for runtime in ["CUDA", "HEXAGON", "HIP", "ONEAPI", "OPENCL", "VULKAN", "WEBGPU"] {
        command.env(format!("ARROW_DEVICE_{runtime}_LIBRARY"), "/nowhere/lib.so");
    }
    for variable in ["CONNECT", "DESIGN", "MODULE", "SOCKET"] {
        command.env_remove(format!("ARROW_DEVICE_VPI_{variable}"));
    }
    let table = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let rows = table.lines().filter(|line| line.split_whitespace().nth(1) == Some("no"));
    for row in rows.clone() {
        let words = ["install", "comes with", "as cuda", "as rocm", "a part of macOS"];
        let is_left_out = row.contains("--features") || row.contains("built without");
        assert!(is_left_out || words.iter().any(|word| row.contains(word)), "{row}");
    }
    // The host and the software device are there, and on a Mac perhaps Metal.
    assert!(rows.clone().count() >= 11, "{table}");
}

#[cfg(feature = "cuda")]
#[test]
fn the_table_gives_a_reason_once_and_json_all_of_it() {
    let said = |option: &[&str]| {
        let mut command = support::arrow_device();
        command.env("ARROW_DEVICE_CUDA_LIBRARY", "/nowhere/libcuda.so").arg("devices").args(option);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let table = said(&[]);
    let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("cuda ").contains("install the NVIDIA driver"), "{table}");
    assert_eq!(table.matches("install the NVIDIA driver").count(), 1, "{table}");
    assert!(!table.contains("/nowhere"), "{table}");
    for other in ["cuda_host", "cuda_managed"] {
        assert!(line(other).ends_with("no    as cuda"), "{table}");
    }
    assert_eq!(said(&["--json"]).matches("/nowhere/libcuda.so").count(), 3);
}

#[cfg(feature = "vulkan")]
#[test]
fn a_vulkan_device_is_listed_with_its_memory_and_its_driver() {
    let text = output(&["devices"]);
    let Some(line) = text.lines().find(|line| line.starts_with("vulkan:0")) else {
        arrow_device_testkit::required::skip("vulkan", "no Vulkan device is listed");
        return;
    };
    assert!(line.contains("iB  "), "{line}");
    assert!(!line.contains("-  -"), "{line}");
}

#[cfg(feature = "opencl")]
#[test]
fn a_machine_without_opencl_is_told_what_to_install() {
    let command = || {
        let mut command = support::arrow_device();
        command.env("ARROW_DEVICE_OPENCL_LIBRARY", "/nowhere/libOpenCL.so");
        command
    };
    let table = command().arg("devices").output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let line = table.lines().find(|line| line.starts_with("opencl")).unwrap();
    assert!(line.contains(" no ") && line.contains("install"), "{line}");
    let refused = command().args(["demo", "--device", "opencl"]).output().unwrap();
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("cannot open opencl:0") && refused.contains("install"), "{refused}");
}

#[cfg(feature = "webgpu")]
#[test]
fn the_demonstration_runs_on_webgpu() {
    let Some(library) = arrow_device_testkit::application::webgpu::library_file() else {
        return arrow_device_testkit::required::skip("webgpu", "there is no WebGPU library");
    };
    let with_library = |arguments: &[&str]| {
        let mut command = support::arrow_device();
        // Libraries below wgpu-native complain on their own where the variable is missing.
        command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
        let output = command.env("ARROW_DEVICE_WEBGPU_LIBRARY", &library).args(arguments).output();
        output.unwrap()
    };
    let text = String::from_utf8(with_library(&["devices"]).stdout).unwrap();
    let Some(line) = text.lines().find(|line| line.starts_with("webgpu:0")) else {
        return arrow_device_testkit::required::skip("webgpu", "no WebGPU device is listed");
    };
    assert!(line.contains("yes"), "{line}");
    let demo = with_library(&["demo", "--device", "webgpu:0"]);
    let complaint = String::from_utf8(demo.stderr).unwrap();
    assert!(demo.status.success() && complaint.is_empty(), "{complaint}");
    assert!(String::from_utf8(demo.stdout).unwrap().contains("webgpu"));
}

#[cfg(feature = "webgpu")]
#[test]
fn a_machine_without_webgpu_is_told_what_to_install() {
    let mut command = support::arrow_device();
    command.env("ARROW_DEVICE_WEBGPU_LIBRARY", "/nowhere/libwgpu_native.so");
    let refused = command.args(["demo", "--device", "webgpu"]).output().unwrap();
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("cannot open webgpu:0") && refused.contains("install"), "{refused}");
}

#[test]
fn the_devices_are_also_json() {
    let text = output(&["devices", "--json"]);
    assert_eq!(text.matches("\"type\":").count(), 14);
    for line in
        ["    \"type\": \"ext_dev\",", "        \"device\": \"cpu\",", "        \"events\": false,"]
    {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
}

#[test]
fn the_conventions_of_all_types_are_told() {
    let text = output(&["devices", "--conventions"]);
    for line in [" 1  cpu", " 2  cuda", "12  ext_dev", "16  hexagon", "14 types of device"] {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("  sync_event")).count(), 14);
}

#[test]
fn help_and_version_are_printed() {
    assert_eq!(output(&["--version"]), format!("arrow-device {}\n", env!("CARGO_PKG_VERSION")));
    let help = output(&["--help"]);
    for part in ["Usage: arrow-device", "devices", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "{help}");
    }
    for command in COMMANDS {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{help}");
        let help = output(&[command, "--help"]);
        assert!(help.contains("Examples:\n  arrow-device"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
}

#[test]
fn the_help_names_every_variable_that_a_backend_reads() {
    let help = output(&["--help"]);
    let mut seen = 0;
    let backends =
        ["cuda", "hexagon", "metal", "oneapi", "opencl", "rocm", "vpi", "vulkan", "webgpu"];
    for backend in backends {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in std::fs::read_dir(crates.join(format!("arrow-device-{backend}/src"))).unwrap() {
            let file = file.unwrap().path();
            if file.is_dir() {
                continue;
            }
            let source = std::fs::read_to_string(file).unwrap();
            let strings = source.split('"').filter(|text| text.starts_with("ARROW_DEVICE_"));
            for variable in strings {
                assert!(help.contains(variable), "{variable} is not in {help}");
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "{seen}");
}

/// What each command has, by the help of it: its name and its long options.
fn options_of(command: &str) -> Vec<String> {
    let help = output(&[command, "--help"]);
    let words = help.lines().filter(|line| line.starts_with("  ")).filter_map(|line| {
        let word = line.split_whitespace().find(|word| word.starts_with("--"))?;
        line.trim_start().starts_with('-').then(|| word.trim_matches(',').to_owned())
    });
    words.collect()
}

const COMMANDS: [&str; 11] = [
    "demo",
    "devices",
    "inspect",
    "copy",
    "share",
    "serve",
    "fetch",
    "bench",
    "check",
    "completions",
    "manual",
];

#[test]
fn shells_complete_every_command_and_every_option() {
    for (shell, of_option) in [("bash", "--"), ("zsh", "--"), ("fish", "-l ")] {
        let script = output(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
            for option in options_of(command) {
                let expected = option.replacen("--", of_option, 1);
                assert!(script.contains(&expected), "{shell}: {command} {expected}");
            }
        }
    }
    complaint(&["completions", "csh"], 2);
}

#[cfg(unix)]
#[test]
fn bash_completes_with_the_script_as_it_is() {
    let script = output(&["completions", "bash"]);
    for (words, expected) in [
        ("arrow-device ins", "inspect"),
        ("arrow-device inspect --he", "--head --help"),
        ("arrow-device completions z", "zsh"),
    ] {
        let (before, last) = words.rsplit_once(' ').unwrap();
        let count = words.split(' ').count() - 1;
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={count}\n\
             _arrow__device arrow-device {last} {}\necho \"${{COMPREPLY[*]}}\"\n",
            before.split(' ').next_back().unwrap()
        );
        let Ok(output) = std::process::Command::new("bash").args(["-c", &ask]).output() else {
            println!("skipped: there is no bash");
            return;
        };
        let found = String::from_utf8_lossy(&output.stdout);
        assert_eq!(found.trim(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_with_every_option() {
    let folder = Folder::new();
    output(&["manual", "--to", folder.path("").to_str().unwrap()]);
    let mut pages: Vec<String> =
        COMMANDS.iter().map(|command| format!("arrow-device-{command}.1")).collect();
    pages.push("arrow-device.1".to_owned());
    pages.sort();
    assert_eq!(folder.names(), pages);
    for command in COMMANDS {
        let page = folder.path(&format!("arrow-device-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap().replace('\\', "");
        for option in options_of(command) {
            assert!(page.contains(&option), "{command} {option}: {page}");
        }
    }
    let page = output(&["manual"]);
    assert!(page.contains(".TH arrow-device 1") && page.contains("inspect"), "{page}");
}

#[test]
fn what_is_no_command_is_refused_in_one_line() {
    for arguments in
        [&["frobnicate"][..], &["devices", "x\ny"], &["--what"], &[""], &["copy"], &["inspect"]]
    {
        let complaint = complaint(arguments, 2);
        assert!(complaint.ends_with("; `--help` lists what there is\n"), "{complaint}");
    }
    for device in ["gpu", "cuda:x", ""] {
        let complaint = complaint(&["demo", "--device", device], 2);
        assert!(complaint.contains("`arrow-device devices` lists"), "{complaint}");
    }
}

#[cfg(not(feature = "files"))]
#[test]
fn a_build_that_reads_no_files_says_how_to_get_one_that_does() {
    for arguments in [&["copy", "a.arrow", "b.arrow"][..], &["inspect", "a.arrow"]] {
        let complaint = complaint(arguments, 1);
        assert!(complaint.contains("build it with `--features files`"), "{complaint}");
    }
}

#[cfg(not(feature = "flight"))]
#[test]
fn a_build_that_speaks_no_flight_says_how_to_get_one_that_does() {
    let mut asked = vec![
        &["serve", "a.arrow"][..],
        &["fetch", "flight://127.0.0.1:8815"],
        &["fetch", "flight://127.0.0.1:8815", "a.arrow", "-o", "b.arrow"],
    ];
    if cfg!(feature = "files") {
        asked.push(&["copy", "flight://127.0.0.1:8815/a.arrow", "b.arrow"]);
        asked.push(&["copy", "a.arrow", "flight://127.0.0.1:8815/b.arrow"]);
    }
    for arguments in asked {
        let complaint = complaint(arguments, 1);
        assert!(complaint.contains("build it with `--features flight`"), "{complaint}");
    }
}

#[cfg(not(feature = "check"))]
#[test]
fn a_build_that_checks_nothing_says_how_to_get_one_that_does() {
    for arguments in [&["check"][..], &["check", "--producer", "./libmine.so:produce"]] {
        let complaint = complaint(arguments, 1);
        assert!(complaint.contains("build it with `--features check`"), "{complaint}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::process::Stdio;
    let mut child =
        support::arrow_device().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
