//! The programs of `examples/`, built as programs that use the installed library are, and run under
//! the tools that see what an ordinary run does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_device_testkit::process::runner;

use crate::support;
use crate::support::{Compiler, assert_success, run, text};

/// Each with a line that it prints when all is well.
const EXAMPLES: [(&str, &str); 8] = [
    ("producer.c", "3 rows of 2 columns on a device of type 1, ready"),
    ("consumer.cpp", "refused: import on cpu: malformed struct: root: length is -1"),
    ("uses_custom_device.c", "the device is closed"),
    ("async_producer.c", "all of them are 4950, the first ten 45"),
    ("dlpack_bridge.cpp", "there and back: 6 numbers, shared"),
    ("two_processes.c", "process one: the other one has finished with the array"),
    ("first_program.c", "the numbers are 7, 8 and 9"),
    ("first_program.cpp", "the numbers are 7, 8 and 9"),
];

fn path(example: &str) -> PathBuf {
    Path::new(support::ROOT).join("examples").join(example)
}

/// The examples that a compiler understands: those in C are C++ too.
fn examples(compiler: &Compiler) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_cpp = compiler.is_cpp();
    EXAMPLES.into_iter().filter(move |(name, _)| is_cpp || name.ends_with(".c"))
}

fn assert_prints(name: &str, command: &mut Command, line: &str) {
    let output = run(support::without_drivers(command));
    assert_success(name, &output);
    assert!(text(&output).lines().any(|printed| printed == line), "{name}: {}", text(&output));
}

#[test]
fn they_run_with_every_compiler() {
    for compiler in support::compilers() {
        for (name, line) in examples(&compiler) {
            assert_prints(name, &mut runner(compiler.build(&path(name), &[])), line);
        }
    }
}

#[test]
fn they_run_clean_under_address_sanitizer() {
    for compiler in support::cpp_compilers().filter(Compiler::can_sanitize) {
        for (name, line) in examples(&compiler) {
            let program = compiler.build(&path(name), support::SANITIZERS);
            assert_prints(name, &mut Command::new(program), line);
        }
    }
}

#[test]
fn they_run_clean_under_valgrind() {
    let Some(_) = support::valgrind() else { return };
    let compiler = support::cpp_compiler();
    for (name, line) in examples(&compiler) {
        let mut valgrind = support::valgrind().unwrap();
        assert_prints(name, valgrind.arg(compiler.build(&path(name), &[])), line);
    }
}

#[test]
fn a_program_that_leaks_is_found() {
    let source = support::fresh_path("leak.c");
    // A pointer that is still in a register is none that was lost, so it is not the last one that
    // counts. A buffer may also have the pointer of the one before in bytes that it does not use,
    // and so every second one is freed.
    let leak = "#include <arrow_device/arrow_device.h>\nint main(void) {\n  struct ardev_buffer* buffer;\n  int i;\n  \
                for (i = 0; i < 18; i++) {\n    if (ardev_buffer_copy(NULL, \"x\", 1, &buffer, NULL)) return 1;\n    \
                if (i % 2) ardev_buffer_free(buffer);\n  }\n  return 0;\n}\n";
    std::fs::write(&source, leak).unwrap();
    let compiler = support::c_compiler();
    if compiler.can_sanitize() {
        let output = run(&mut Command::new(compiler.build(&source, support::SANITIZERS)));
        assert!(text(&output).contains("detected memory leaks"), "{}", text(&output));
    }
    if let Some(mut valgrind) = support::valgrind() {
        let output = run(valgrind.arg(compiler.build(&source, &[])));
        assert_eq!(output.status.code(), Some(9), "{}", text(&output));
    }
}

#[test]
fn they_are_built_with_pkg_config() {
    if !support::has("pkg-config") {
        return;
    }
    let prefix = support::installed();
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "arrow-device >= 0.1"]);
    let output = run(ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    assert_success("pkg-config", &output);
    let program = support::fresh_path("pkg-config");
    let mut compiler = Command::new(&support::c_compiler().program);
    compiler.arg("-o").arg(&program).arg(path("producer.c"));
    compiler.args(String::from_utf8_lossy(&output.stdout).split_whitespace());
    assert_success("cc", &run(&mut compiler));
    // It finds the library by its name, where the system looks for libraries.
    let mut command = Command::new(&program);
    let [(name, line), ..] = EXAMPLES;
    assert_prints(name, command.env("LD_LIBRARY_PATH", prefix.join("lib")), line);
}

#[test]
fn they_are_built_with_cmake_and_with_the_static_library() {
    if !support::has("cmake") || !support::has("ctest") {
        return;
    }
    let build = support::fresh_path("cmake");
    let _ = std::fs::remove_dir_all(&build);
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(path("")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", support::installed().display()));
    assert_success("cmake", &run(&mut configure));
    assert_success("cmake", &run(Command::new("cmake").arg("--build").arg(&build)));
    let output = run(support::without_drivers(Command::new("ctest").arg("--test-dir").arg(&build)));
    assert_success("ctest", &output);
    let expected = format!("100% tests passed, 0 tests failed out of {}", EXAMPLES.len() + 1);
    assert!(text(&output).contains(&expected), "{}", text(&output));
}
