//! The device of `custom_device.c`, built as a library of its own, and judged by the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device_testkit::kinds::{self, Case, Kind};
use arrow_device_testkit::process::{Child, is_child, runner};
use arrow_device_testkit::release_until;
use arrow_device_testkit::suite::Check;

use crate::book::blocks;
use crate::support::{ROOT, assert_success, c_compiler, fresh_path, run, without_drivers};

#[allow(dead_code)]
#[path = "../../examples/judge_device/main.rs"]
mod judge_device;

use judge_device::Judged;

fn source() -> String {
    fs::read_to_string(Path::new(ROOT).join("examples/custom_device.c")).unwrap()
}

/// The library of a text. Each library has a number of its own for its device, because nobody could
/// tell whose memory is whose by one id.
fn library(text: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let first = "int instances = 0;";
    assert!(text.contains(first));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let text = text.replace(first, &format!("int instances = {number};"));
    let (source, library) = (fresh_path("device.c"), fresh_path("libdevice.so"));
    fs::write(&source, text).unwrap();
    let mut command = c_compiler().command();
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert_success("cc", &run(&mut command));
    library
}

fn opened(library: &Path) -> Judged {
    let library = library.to_str().unwrap();
    // SAFETY: the text has these functions.
    unsafe { Judged::open(library, "custom_device") }.unwrap()
}

/// Some types, each in some shapes.
fn some() -> Vec<Case> {
    kinds::cases_of(kinds::types()).step_by(12).collect()
}

// Requirement: SYS-1, DRV-28
#[test]
fn the_device_of_the_example_passes() {
    let judged = opened(&library(&source()));
    let report = judged.report(Some(some()));
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * 69 + 29);
    let device = judged.device;
    assert!(release_until(|| device.held().allocated == 0), "{:?}", device.held());
}

/// Parts of the text of which each is needed, and what stands there by mistake.
const MISTAKES: [(&str, &str); 5] = [
    ("event->number = device->submitted;", "event->number = 0;"),
    (
        "if (number == UINT64_MAX) number = device->submitted;",
        "if (number == UINT64_MAX) number = 0;",
    ),
    ("(size_t)it->size)", "(size_t)it->size - 1)"),
    ("code = device->state == IS_LOST ? ENXIO : device", "code = device"),
    ("return (void)context, code == EAGAIN ? 0 : code;", "return *out = 1, (void)context, 0;"),
];

/// The variable that tells a child which library it loads. A child builds nothing, because its
/// paths would be those of its parent.
const LIBRARY: &str = "ARROW_DEVICE_TEST_LIBRARY";

fn library_of_parent() -> PathBuf {
    std::env::var_os(LIBRARY).unwrap().into()
}

/// A device with a mistake may use memory that is freed already, so each is judged in a process of
/// its own, which may crash.
#[test]
fn a_mistake_in_the_text_of_the_device_is_found() {
    if is_child() {
        let judged = opened(&library_of_parent());
        let cases = kinds::cases_of([Kind::Fixed("l", 8)]).take(3).collect();
        if !judged.report(Some(cases)).failures().is_empty() {
            println!("it is found");
        }
        // What such a device leaves behind is not looked at.
        std::mem::forget(judged);
        return;
    }
    let source = source();
    for (right, wrong) in MISTAKES {
        assert_eq!(source.matches(right).count(), 1, "{right}");
        let library = library(&source.replace(right, wrong));
        let child = Child::of_this_test().env(LIBRARY, library).run();
        let is_found = child.has_crashed() || child.stdout.contains("it is found");
        assert!(is_found, "nobody sees `{wrong}`: {}", child.stdout);
    }
}

#[test]
fn the_host_crashes_where_it_reads_memory_of_the_device() {
    if !is_child() {
        let child = Child::of_this_test().env(LIBRARY, library(&source())).run();
        assert!(child.has_crashed() && child.stdout.contains("reads"), "{}", child.stdout);
        return;
    }
    let queue = opened(&library_of_parent()).device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    let address = memory.spot(&queue).unwrap().base.as_ptr().cast::<u8>();
    println!("the host reads");
    // SAFETY: none: the read ends the process.
    println!("{}", unsafe { address.read_volatile() });
}

/// What the page about extension devices shows is text of the examples, and printed by them.
#[test]
fn the_page_shows_parts_of_the_examples_and_what_they_print() {
    let read = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let page = read("../../docs/extension-devices.md");
    let program = "examples/uses_custom_device.c";
    let texts = [source(), read(program)];
    let built = c_compiler().build(&Path::new(ROOT).join(program), &[]);
    let output = run(without_drivers(&mut runner(built)));
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut kinds = Vec::new();
    for (kind, block) in blocks(&page) {
        let is_true = match kind {
            "c" => texts.iter().any(|text| text.contains(block)),
            "text" => block.lines().all(|line| printed.lines().any(|printed| printed == line)),
            _ => true,
        };
        assert!(is_true, "not so any more: {block}");
        kinds.push(kind);
    }
    assert_eq!(kinds, ["c", "c", "text", "sh"]);
}

#[test]
fn the_device_of_the_example_has_200_lines_of_code() {
    let source = source();
    let lines = source.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(code.clone().count() <= 200, "{}", code.count());
}
