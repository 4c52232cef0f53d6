//! What `install.sh` takes, refuses and leaves behind.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs, iter};

use crate::support::{ROOT, assert_success, fresh_path, has, run};

fn installer() -> Command {
    let mut command = Command::new("sh");
    command.arg(Path::new(ROOT).join("install.sh"));
    command
}

/// Where cargo leaves the libraries beside the tests.
fn built() -> std::path::PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_it_does_not_understand_is_refused_before_anything_is_written() {
    let prefix = fresh_path("refused");
    let arguments: [(&[&str], i32, &str); 8] = [
        (&["--what"], 2, "unknown option --what"),
        (&["--prefix"], 2, "--prefix needs a value"),
        (&["--prefix", ""], 2, "--prefix needs a value"),
        (&["--prefix", "--libdir", "lib"], 2, "--libdir is an option"),
        (&["--from="], 2, "--from needs a value"),
        (&["--libdir", "/lib"], 2, "a folder below the prefix"),
        (&["--from", "/nowhere"], 1, "there is no libarrow_device_capi.so in /nowhere"),
        (&["--from", "/nowhere", "--no-strip"], 1, "name the folder that cargo built it in"),
    ];
    for (arguments, code, why) in arguments {
        let mut command = installer();
        command.arg("--prefix").arg(&prefix).args(arguments);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(told(&output).contains(why), "{arguments:?}: {}", told(&output));
        assert!(!prefix.exists(), "{arguments:?}");
    }
    let output = run(installer().arg("--help"));
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for option in ["--prefix", "--libdir", "--features", "--from", "--no-strip", "DESTDIR"] {
        assert!(output.status.success() && help.contains(option), "{help}");
    }
}

#[test]
fn a_prefix_that_is_not_absolute_is_one_from_here() {
    let here = fresh_path("here");
    // A run before may have left it.
    let _ = fs::remove_dir_all(&here);
    fs::create_dir_all(&here).unwrap();
    let mut command = installer();
    command.current_dir(&here).args(["--prefix=below", "--libdir=lib/of/mine", "--no-strip"]);
    assert_success("install.sh", &run(command.arg("--from").arg(built())));
    let prefix = here.join("below");
    let package = fs::read_to_string(prefix.join("lib/of/mine/pkgconfig/arrow-device.pc")).unwrap();
    let expected = format!("prefix={}\n", prefix.display());
    assert!(package.starts_with(&expected), "{package}");
    let headers = [
        "abi.h",
        "abi_helpers.h",
        "arrow_cpp.hpp",
        "arrow_device.h",
        "arrow_device.hpp",
        "check.h",
        "data.hpp",
        "dlpack_abi.h",
        "driver.h",
        "exchange.hpp",
        "oneapi.h",
        "result.hpp",
        "schema.h",
        "share.h",
        "share.hpp",
        "sim.h",
        "sycl.hpp",
        "views.hpp",
        "vpi_module.h",
        "vulkan.h",
    ];
    let mut found: Vec<String> = fs::read_dir(prefix.join("include/arrow_device"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, headers);
}

#[test]
fn what_a_simulator_loads_is_installed_beside_the_library_under_the_name_that_vvp_looks_for() {
    let from = fresh_path("with a module");
    let _ = fs::remove_dir_all(&from);
    fs::create_dir_all(from.join("deps")).unwrap();
    for library in ["libarrow_device_capi.so", "libarrow_device_capi.a"] {
        fs::copy(built().join(library), from.join(library)).unwrap();
    }
    let prefix = fresh_path("module");
    let _ = fs::remove_dir_all(&prefix);
    let install = || {
        let mut command = installer();
        command.args(["--no-strip", "--features", "software,vpi"]).arg("--prefix").arg(&prefix);
        run(command.arg("--from").arg(&from))
    };
    // Devices that were asked for do not work without it.
    let output = install();
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("no libarrow_device_vpi_module.so"), "{}", told(&output));
    assert!(!prefix.exists());
    fs::write(from.join("deps/libarrow_device_vpi_module.so"), "the module").unwrap();
    assert_success("install.sh", &install());
    let folder = prefix.join("lib/arrow-device");
    for name in ["libarrow_device_vpi_module.so", "arrow_device.vpi"] {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "the module", "{name}");
    }
}

#[test]
fn a_module_that_another_build_has_left_is_not_installed() {
    let folder = fresh_path("another build");
    let _ = fs::remove_dir_all(&folder);
    let release = folder.join("target/release");
    fs::create_dir_all(release.join("deps")).unwrap();
    for library in ["libarrow_device_capi.so", "libarrow_device_capi.a"] {
        fs::copy(built().join(library), release.join(library)).unwrap();
    }
    fs::write(release.join("deps/libarrow_device_vpi_module.so"), "the module").unwrap();
    // Stands for cargo: everything is built already.
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let cargo = programs.join("cargo");
    fs::write(&cargo, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let others = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(iter::once(programs).chain(env::split_paths(&others))).unwrap();
    for (features, installed) in [("software", false), ("software,vpi", true)] {
        let prefix = folder.join(features);
        let mut command = installer();
        command.args(["--no-strip", "--features", features]).arg("--prefix").arg(&prefix);
        command.env("PATH", &path).env("CARGO_TARGET_DIR", folder.join("target"));
        assert_success("install.sh", &run(&mut command));
        assert_eq!(prefix.join("lib/arrow-device").exists(), installed, "{features}");
    }
}

#[test]
fn libraries_are_stripped_and_not_written_into() {
    if !has("strip") {
        return;
    }
    let (plain, stripped) = (fresh_path("plain"), fresh_path("stripped"));
    let install = |prefix: &Path, options: &[&str]| {
        let mut command = installer();
        command.arg("--prefix").arg(prefix).args(options).arg("--from").arg(built());
        assert_success("install.sh", &run(&mut command));
    };
    install(&plain, &["--no-strip"]);
    install(&stripped, &[]);
    let size =
        |prefix: &Path, name: &str| fs::metadata(prefix.join("lib").join(name)).unwrap().len();
    // Of the static library, most is left for the linker.
    for (name, left) in [("libarrow_device.so", 0.75), ("libarrow_device.a", 0.95)] {
        let (stripped, plain) = (size(&stripped, name), size(&plain, name));
        assert!((stripped as f64) < left * plain as f64, "{name}: {stripped} of {plain} bytes");
    }
    // What strips libraries of other processors alone leaves them as they are.
    let other = fresh_path("other");
    let mut command = installer();
    command.env("STRIP", "false").arg("--prefix").arg(&other).arg("--from").arg(built());
    let output = run(&mut command);
    assert!(output.status.success() && told(&output).contains("does not strip"));
    assert_eq!(size(&other, "libarrow_device.a"), size(&plain, "libarrow_device.a"));
    // A program that has the library open keeps the old file.
    let library = stripped.join("lib/libarrow_device.so");
    let open = fs::File::open(&library).unwrap();
    let len = open.metadata().unwrap().len();
    install(&stripped, &["--no-strip"]);
    assert_eq!(open.metadata().unwrap().len(), len);
    assert!(size(&stripped, "libarrow_device.so") > len);
}

/// The global names that a library defines.
fn names(library: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("nm");
    command.args(["--defined-only", "--extern-only", "-P"]).args(options).arg(library);
    let output = run(&mut command);
    assert_success("nm", &output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A line with the name of a member, `libarrow_device.a[arrow_device.o]:`, has no second word.
    let name = |line: &str| line.split_once(' ').map(|(name, _)| name.to_owned());
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    names
}

#[test]
fn the_static_library_has_the_names_of_the_shared_one() {
    if ["nm", "ld", "objcopy", "ar"].into_iter().any(|tool| !has(tool)) {
        return;
    }
    let prefix = fresh_path("hidden");
    let mut command = installer();
    command.arg("--prefix").arg(&prefix).arg("--from").arg(built());
    let output = run(&mut command);
    assert_success("install.sh", &output);
    assert_eq!(told(&output), "");
    let lib = prefix.join("lib");
    let shared = names(&lib.join("libarrow_device.so"), &["-D"]);
    assert!(shared.len() > 100, "{shared:?}");
    assert_eq!(names(&lib.join("libarrow_device.a"), &[]), shared);
    let mut left: Vec<_> = fs::read_dir(&lib)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // The folder is there if the module for simulators was built, too.
        .filter(|name| !name.starts_with("libarrow_device.so") && name != "arrow-device")
        .collect();
    left.sort();
    assert_eq!(left, ["cmake", "libarrow_device.a", "pkgconfig"]);

    // Tools that cannot do it leave the library as it is.
    let prefix = fresh_path("shown");
    let mut command = installer();
    command.env("LD", "false").arg("--prefix").arg(&prefix).arg("--from").arg(built());
    let output = run(&mut command);
    assert!(output.status.success() && told(&output).contains("are not hidden"), "{output:?}");
    let static_library = prefix.join("lib/libarrow_device.a");
    assert!(names(&static_library, &[]).len() > 10 * shared.len());
}
