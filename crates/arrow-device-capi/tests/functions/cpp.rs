//! `arrow_device.hpp`: its classes in both forms, by every compiler, and Arrow C++.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_device_testkit::peers::packages;
use arrow_device_testkit::process::runner;
use arrow_device_testkit::required::skip;

use crate::support::interface::Interface;
use crate::support::{
    self, Compiler, ROOT, SANITIZERS, assert_success, cpp_compiler, cpp_compilers, fresh_path,
    installed, run, text, without_drivers,
};

const HEADERS: [&str; 7] = [
    "arrow_device.hpp",
    "result.hpp",
    "data.hpp",
    "views.hpp",
    "exchange.hpp",
    "share.hpp",
    "arrow_cpp.hpp",
];
const RESULTS: [&str; 2] = ["-fno-exceptions", "-DARROW_DEVICE_NO_EXCEPTIONS"];

fn program(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/cpp").join(name)
}

fn assert_all_is_well(compiler: &Compiler, name: &str, options: &[&str]) {
    let output = run(without_drivers(&mut runner(compiler.build(&program(name), options))));
    assert_success(&format!("{name} {options:?}"), &output);
    assert!(text(&output).contains("all is well"), "{}", text(&output));
}

#[test]
fn every_class_does_what_it_says_and_throws_errors() {
    for compiler in cpp_compilers() {
        assert_all_is_well(&compiler, "objects.cpp", &[]);
    }
}

#[test]
fn every_class_does_what_it_says_and_returns_results_without_exceptions() {
    for compiler in cpp_compilers() {
        assert_all_is_well(&compiler, "objects.cpp", &[&["-std=c++20"][..], &RESULTS].concat());
    }
}

#[test]
fn both_forms_run_clean_under_the_sanitizers() {
    for compiler in cpp_compilers().filter(Compiler::can_sanitize) {
        assert_all_is_well(&compiler, "objects.cpp", &[&["-std=c++20"], SANITIZERS].concat());
        assert_all_is_well(&compiler, "objects.cpp", &[&RESULTS[..], SANITIZERS].concat());
    }
}

#[test]
fn every_function_of_the_header_in_c_is_called_by_a_class() {
    let folder = Path::new(ROOT).join("include/arrow_device");
    let classes: String =
        HEADERS.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
    let words: BTreeSet<&str> =
        classes.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let header = Interface::of_header(&support::header());
    let missing: Vec<&String> =
        header.functions.keys().filter(|name| !words.contains(name.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// What the compiler says of a program that it has to refuse.
fn refusal(body: &str, options: &[&str]) -> String {
    let source = fresh_path("refused.cpp");
    let text = "#include <arrow_device/arrow_device.hpp>\nusing namespace arrow_device;\n";
    fs::write(&source, format!("{text}{body}")).unwrap();
    let mut command = cpp_compiler().command();
    let output = run(command.args(options).arg("-fsyntax-only").arg(&source));
    assert!(!output.status.success(), "{body} compiles");
    support::text(&output)
}

#[test]
fn what_would_be_a_mistake_does_not_compile() {
    for (body, why) in [
        ("Array twice(const Array& array) { return array; }", "deleted"),
        ("void drop() { Device::open(1); }", "nodiscard"),
        ("void drop(const Array& array) { array.copy_to(host); }", "nodiscard"),
        ("void text() { auto all = Array::of(std::vector<const char*>{}); }", "Arrow has no array"),
    ] {
        let said = refusal(body, &[]);
        assert!(said.contains(why) || said.contains("warn_unused"), "{body}: {said}");
    }
    let said = refusal("void drop(const Array& array) { array.wait(); }", &RESULTS);
    assert!(said.contains("nodiscard") || said.contains("ignoring"), "{said}");
    let said = refusal("", &RESULTS[..1]);
    assert!(said.contains("define ARROW_DEVICE_NO_EXCEPTIONS"), "{said}");
}

/// What is between the first fence of this kind in a part of a page and the next fence.
fn fenced<'a>(part: &'a str, kind: &str) -> &'a str {
    let (_, rest) = part.split_once(&format!("```{kind}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_program_in_the_page_compiles_as_it_stands_and_prints_what_the_page_says() {
    let page = fs::read_to_string(Path::new(ROOT).join("../../docs/c.md")).unwrap();
    let (_, part) = page.split_once("## C++ in five minutes\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let source = fresh_path("squares.cpp");
    fs::write(&source, fenced(part, "cpp")).unwrap();
    for compiler in cpp_compilers() {
        let program = compiler.build(&source, &[]);
        let output = run(without_drivers(&mut runner(program)));
        assert_success("squares.cpp", &output);
        assert_eq!(String::from_utf8_lossy(&output.stdout), fenced(part, "text"));
    }
    let command = fenced(part, "sh");
    assert!(command.starts_with("c++ -std=c++17 squares.cpp $(pkg-config"), "{command}");
}

/// pyarrow's folder, which has the headers and libraries of Arrow C++, among the peers that are
/// installed.
fn pyarrow() -> Option<PathBuf> {
    let mut folders = packages().into_iter().map(|packages| packages.join("pyarrow"));
    folders.find(|folder| folder.join("include/arrow/c/bridge.h").exists())
}

#[test]
fn arrow_cpp_takes_and_gives_all_that_it_has() {
    let Some(pyarrow) = pyarrow() else {
        return skip("pyarrow", "no Arrow C++: `cargo xtask test --setup` installs it");
    };
    let libraries = fs::read_dir(&pyarrow).unwrap().map(|entry| entry.unwrap().path());
    let is_arrow =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("libarrow.so");
    let library = libraries.into_iter().find(is_arrow).unwrap();
    for compiler in cpp_compilers() {
        let path = fresh_path("arrow_cpp");
        let lib = installed().join("lib");
        let mut command = Command::new(compiler.program);
        command.args(["-std=c++20", "-pthread"]).args(support::WARNINGS);
        command.arg("-I").arg(installed().join("include"));
        command.arg("-isystem").arg(pyarrow.join("include")).arg("-o").arg(&path);
        command.arg(program("arrow_cpp.cpp")).arg(&library);
        command.arg("-L").arg(&lib).arg("-larrow_device");
        for folder in [&lib, &pyarrow] {
            command.arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        assert_success("arrow_cpp.cpp", &run(&mut command));
        let output = run(without_drivers(&mut Command::new(&path)));
        assert_success("arrow_cpp.cpp", &output);
        assert!(text(&output).contains("all is well"), "{}", text(&output));
    }
}
