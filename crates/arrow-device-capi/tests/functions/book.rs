//! The programs in C and C++ of the book's chapters and of the page about processes, which have to
//! print what the pages say.

use std::fs;
use std::path::Path;

use arrow_device_testkit::process::runner;

use crate::support::{ROOT, assert_success, compilers, fresh_path, run, without_drivers};

/// The fenced blocks of a page, in order: the kind and the content of each.
pub(crate) fn blocks(page: &str) -> Vec<(&str, &str)> {
    let inside = page.split("\n```").skip(1).step_by(2);
    inside.filter_map(|block| block.split_once('\n')).collect()
}

/// Each program of a kind in all these pages, with its name and with what it prints: the block of
/// text behind the program.
fn programs(kind: &str) -> Vec<(String, String, String)> {
    let mut programs = Vec::new();
    let chapters = fs::read_dir(Path::new(ROOT).join("../../book/src")).unwrap();
    let chapters = chapters.map(|entry| entry.unwrap().path());
    let processes = Path::new(ROOT).join("../../docs/processes.md");
    for path in chapters.chain([processes]) {
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        let blocks = blocks(&page);
        for (index, (_, program)) in blocks.iter().enumerate().filter(|(_, block)| block.0 == kind)
        {
            let chapter = path.file_stem().unwrap().to_string_lossy();
            let name = format!("{chapter}-{index}.{kind}");
            let printed = blocks.get(index + 1).filter(|block| block.0 == "text");
            let printed = printed.unwrap_or_else(|| panic!("{name}: what it prints is not shown"));
            programs.push((name, (*program).to_owned(), printed.1.to_owned()));
        }
    }
    programs
}

fn assert_they_print_what_the_book_says(kind: &str, at_least: usize) {
    let programs = programs(kind);
    assert!(programs.len() >= at_least, "{} programs in {kind}", programs.len());
    for (name, program, printed) in programs {
        let source = fresh_path(&name);
        fs::write(&source, format!("{program}\n")).unwrap();
        for compiler in compilers().iter().filter(|it| it.is_cpp() == (kind == "cpp")) {
            let mut command = runner(compiler.build(&source, &[]));
            let output = run(without_drivers(&mut command));
            assert_success(&name, &output);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), printed, "{name}");
        }
    }
}

#[test]
fn the_programs_in_c_print_what_the_book_says() {
    assert_they_print_what_the_book_says("c", 3);
}

#[test]
fn the_programs_in_cpp_print_what_the_book_says() {
    assert_they_print_what_the_book_says("cpp", 2);
}

#[test]
fn a_block_is_found_with_its_kind_and_its_content() {
    let page = "# A\n\n```c\nint a;\n\nint b;\n```\n\ntext\n\n```text\nprinted\n```\n";
    assert_eq!(blocks(page), [("c", "int a;\n\nint b;"), ("text", "printed")]);
}
