//! Building with what other projects build with: the helpers by themselves, CMake's FetchContent
//! and Meson's wraps, of this tree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    self, ROOT, SANITIZERS, assert_success, fresh_path, has, run, text, without_drivers,
};

fn root() -> PathBuf {
    Path::new(ROOT).join("../..").canonicalize().unwrap()
}

/// Where cargo leaves the libraries beside the tests.
fn built() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

#[test]
fn the_helpers_need_no_library_and_find_each_mistake() {
    let source = Path::new(ROOT).join("tests/c/helpers.c");
    let include = Path::new(ROOT).join("../arrow-device-abi/include");
    for compiler in support::compilers() {
        let sanitizers = if compiler.can_sanitize() { SANITIZERS } else { &[] };
        for options in [&[][..], sanitizers] {
            let program = fresh_path("helpers");
            let mut command = compiler.command_without_library();
            command.arg("-I").arg(&include).args(options).args(["-Wconversion", "-Wshadow"]);
            command.arg("-o").arg(&program).arg(&source);
            assert_success(&format!("{compiler:?} helpers.c"), &run(&mut command));
            let output = run(&mut Command::new(&program));
            assert_success("helpers.c", &output);
            assert!(text(&output).contains("all is well"), "{}", text(&output));
        }
    }
}

/// A project of somebody else's, in a folder of its own.
fn project(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = fresh_path(name);
    // A run before may have left it.
    let _ = fs::remove_dir_all(&folder);
    for (file, content) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

const VERSION: &str = "#include <arrow_device/arrow_device.h>\n#include <stdio.h>\n\
    int main(void) {\n  printf(\"version %u\\n\", (unsigned)ardev_version());\n  return 0;\n}\n";
const HELPERS: &str = "#include <arrow_device/abi_helpers.h>\n\
    int main(void) {\n  struct ArrowSchema schema;\n  ardev_schema_struct_init(&schema);\n  \
    return !ardev_schema_struct_is_released(&schema);\n}\n";

/// What is between the first fence of this kind after a line of the page and the next fence.
fn fenced(after: &str, kind: &str) -> String {
    let page = fs::read_to_string(root().join("docs/c.md")).unwrap();
    let (_, rest) = page.split_once(after).unwrap();
    let (_, rest) = rest.split_once(&format!("```{kind}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn assert_runs(program: &Path, expected: &str) {
    let output = run(without_drivers(&mut Command::new(program)));
    assert_success(&program.display().to_string(), &output);
    assert!(text(&output).contains(expected), "{}", text(&output));
}

#[test]
fn cmake_fetches_the_tree_and_builds_what_is_in_the_page() {
    if !has("cmake") {
        return;
    }
    let lines = "cmake_minimum_required(VERSION 3.16)\nproject(somebody C)\n".to_owned()
        + &fenced("### CMake that fetches the sources", "cmake")
        + "add_executable(program program.c)\n\
           target_link_libraries(program PRIVATE arrow_device::arrow_device)\n\
           add_executable(whole program.c)\n\
           target_link_libraries(whole PRIVATE arrow_device::static)\n\
           add_executable(helpers helpers.c)\n\
           target_link_libraries(helpers PRIVATE arrow_device::abi)\n";
    let files = [("CMakeLists.txt", &*lines), ("program.c", VERSION), ("helpers.c", HELPERS)];
    let folder = project("fetching", &files);
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&folder).arg("-B").arg(&build);
    // CMake's own way to name a tree in the place of what would be downloaded.
    configure.arg(format!("-DFETCHCONTENT_SOURCE_DIR_ARROW_DEVICE={}", root().display()));
    // Instead of a build by cargo of what the tests have built already.
    configure.arg(format!("-DARROW_DEVICE_LIBRARIES={}", built().display()));
    assert_success("cmake", &run(&mut configure));
    assert_success("cmake", &run(Command::new("cmake").arg("--build").arg(&build)));
    assert_runs(&build.join("program"), "version 1\n");
    assert_runs(&build.join("whole"), "version 1\n");
    assert_runs(&build.join("helpers"), "");
}

#[test]
fn cmake_has_the_helpers_without_rust() {
    if !has("cmake") {
        return;
    }
    let lines = "cmake_minimum_required(VERSION 3.16)\nproject(somebody C)\n\
        set(ARROW_DEVICE_HEADERS_ONLY ON)\n"
        .to_owned()
        + &fenced("### CMake that fetches the sources", "cmake")
        + "add_executable(helpers helpers.c)\n\
           target_link_libraries(helpers PRIVATE arrow_device::abi)\n";
    let folder = project("headers", &[("CMakeLists.txt", &*lines), ("helpers.c", HELPERS)]);
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&folder).arg("-B").arg(&build);
    configure.arg(format!("-DFETCHCONTENT_SOURCE_DIR_ARROW_DEVICE={}", root().display()));
    // A cargo that cannot be called: nothing needs it.
    configure.arg("-DARROW_DEVICE_CARGO=/nowhere/cargo");
    assert_success("cmake", &run(&mut configure));
    assert_success("cmake", &run(Command::new("cmake").arg("--build").arg(&build)));
    assert_runs(&build.join("helpers"), "");
}

#[test]
fn cmake_builds_with_cargo() {
    if !has("cmake") {
        return;
    }
    // A cargo that says what it was asked for, and leaves libraries where it was told to.
    let lines = "cmake_minimum_required(VERSION 3.16)\nproject(somebody C)\n".to_owned()
        + &fenced("### CMake that fetches the sources", "cmake")
        + "add_executable(program program.c)\n\
           target_link_libraries(program PRIVATE arrow_device::arrow_device)\n";
    let script = format!(
        "#!/bin/sh\necho \"$@\" > \"$(dirname \"$0\")/asked\"\n\
         for word in \"$@\"; do case $word in --target-dir=*) out=${{word#--target-dir=}} ;; esac; done\n\
         mkdir -p \"$out/release\"\ncp {0}/libarrow_device_capi.so {0}/libarrow_device_capi.a \"$out/release/\"\n",
        built().display()
    );
    let files = [("CMakeLists.txt", &*lines), ("program.c", VERSION), ("cargo", &*script)];
    let folder = project("cargo", &files);
    assert_success("chmod", &run(Command::new("chmod").arg("+x").arg(folder.join("cargo"))));
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&folder).arg("-B").arg(&build);
    configure.arg(format!("-DFETCHCONTENT_SOURCE_DIR_ARROW_DEVICE={}", root().display()));
    configure.arg(format!("-DARROW_DEVICE_CARGO={}", folder.join("cargo").display()));
    configure.arg("-DARROW_DEVICE_FEATURES=vulkan,software");
    assert_success("cmake", &run(&mut configure));
    assert_success("cmake", &run(Command::new("cmake").arg("--build").arg(&build)));
    assert_runs(&build.join("program"), "version 1\n");
    let asked = fs::read_to_string(folder.join("asked")).unwrap();
    for word in ["build", "--release", "--package=arrow-device-capi", "--features=vulkan,software"]
    {
        assert!(asked.split_whitespace().any(|asked| asked == word), "{asked}");
    }
}

#[test]
fn meson_builds_the_tree_as_a_subproject() {
    if !has("meson") || !has("ninja") {
        return;
    }
    let wrap = fenced("### Meson", "ini");
    assert!(wrap.contains("[wrap-git]") && wrap.contains("[provide]"), "{wrap}");
    let lines = "project('somebody', 'c')\n".to_owned()
        + &fenced("### Meson", "meson")
        + "executable('helpers', 'helpers.c', dependencies: dependency('arrow-device-abi'))\n";
    let files = [
        ("meson.build", &*lines),
        ("program.c", VERSION),
        ("helpers.c", HELPERS),
        // The page's own, with this tree in the place of what would be downloaded.
        ("subprojects/arrow-device.wrap", &*wrap),
    ];
    let folder = project("meson", &files);
    let tree = folder.join("subprojects/arrow-device");
    std::os::unix::fs::symlink(root(), &tree).unwrap();
    let build = folder.join("build");
    let mut setup = Command::new("meson");
    setup.args(["setup", "--wrap-mode=nodownload"]);
    setup.arg(format!("-Darrow-device:libraries={}", built().display()));
    assert_success("meson", &run(setup.arg(&build).arg(&folder)));
    assert_success("meson", &run(Command::new("meson").args(["compile", "-C"]).arg(&build)));
    assert_runs(&build.join("program"), "version 1\n");
    assert_runs(&build.join("helpers"), "");
}
