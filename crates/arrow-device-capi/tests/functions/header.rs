//! The header: what it declares is what the library has, and it compiles without a warning wherever
//! it is included.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support;
use crate::support::interface::Interface;

#[test]
fn every_prototype_struct_and_constant_is_that_of_the_library() {
    let (header, mut exported) = (Interface::of_header(&support::header()), support::exported());
    // The kinds of errors are an enumeration in C and a match in Rust, which a unit test pins.
    let is_kind = |name: &String| name.starts_with("ARDEV_KIND_");
    let kinds = header.constants.iter().filter(|(name, _)| is_kind(name));
    exported.constants.extend(kinds.map(|(name, value)| (name.clone(), *value)));
    assert_eq!(header.differences(&exported), Vec::<String>::new());
    assert!(header.functions.len() > 75, "{}", header.functions.len());
    assert!(header.structs.len() > 13, "{}", header.structs.len());
    let kinds: BTreeSet<i64> = header
        .constants
        .iter()
        .filter(|(name, _)| is_kind(name))
        .map(|(_, value)| *value)
        .collect();
    assert_eq!(kinds, (0..20).collect());
}

#[test]
fn a_difference_is_found_wherever_it_is() {
    let text = support::header();
    let right = Interface::of_header(&text);
    for (from, to) in [
        ("int64_t timeout,", "int32_t timeout,"),
        ("const struct ardev_queue* queue,", "struct ardev_queue* queue,"),
        ("size_t ardev_held_back(void);", "uint64_t ardev_held_back(void);"),
        ("size_t ardev_held_back(void);", ""),
        ("  uint64_t staging; ", "  uint32_t staging; "),
        ("  uint64_t size;\n};", "  int64_t size;\n};"),
        (
            "(*wait_on_host)(void* context, void* event, int64_t timeout)",
            "(*wait_on_host)(void* context, void* event)",
        ),
        ("  char message[1008];", "  char message[1000];"),
        ("#define ARDEV_COPY_WHOLE 2", "#define ARDEV_COPY_WHOLE 3"),
        ("ARDEV_KIND_PEER = 17", "ARDEV_KIND_PEER = 18"),
    ] {
        assert!(text.contains(from), "the header does not have `{from}`");
        let wrong = Interface::of_header(&text.replacen(from, to, 1));
        assert!(!right.differences(&wrong).is_empty(), "`{to}` for `{from}` is not found");
    }
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !support::has("nm") {
        return;
    }
    let library = support::installed().join("lib/libarrow_device.so");
    let output = support::run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let text = support::text(&output);
    let symbols: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let header = Interface::of_header(&support::header());
    let declared: BTreeSet<&str> = header.functions.keys().map(String::as_str).collect();
    assert_eq!(symbols, declared);
    assert!(declared.iter().all(|name| name.starts_with("ardev_")));
}

#[test]
fn the_library_has_a_name_of_its_own_and_stays_where_it_is_loaded() {
    if !support::has("readelf") {
        return;
    }
    let library = support::installed().join("lib/libarrow_device.so");
    let text = support::text(&support::run(Command::new("readelf").arg("-d").arg(library)));
    assert!(text.contains("[libarrow_device.so.0]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

#[test]
fn the_header_compiles_without_a_warning_in_c_and_cpp() {
    let header = "#include <arrow_device/arrow_device.h>\n";
    let abi = "#include <arrow_device/abi.h>\n#include <arrow_device/dlpack_abi.h>\n";
    let main = "int main(void) { return ardev_version() == 0; }\n";
    for compiler in support::compilers() {
        for includes in [
            header.to_owned(),
            header.repeat(2),
            format!("{abi}{header}"),
            format!("{header}{abi}"),
        ] {
            let source = support::fresh_path("includes.c");
            std::fs::write(&source, includes + main).unwrap();
            let mut command = compiler.command();
            command.arg("-c").arg("-o").arg(support::fresh_path("includes.o"));
            let output = support::run(command.arg(&source));
            support::assert_success(&format!("{compiler:?}"), &output);
            assert_eq!(support::text(&output), "\n", "{compiler:?} has something to say");
        }
    }
}
