//! The headers compile as C11 and C++17 without a warning, alone and beside other copies of the
//! same declarations, and refuse to compile where a wrong copy won.
//!
//! The other copies are made from the headers' own text, with their guards. Compilers are `$CC` and
//! `$CXX` (`cc` and `c++` where unset), and clang, which is skipped where there is none unless it
//! is required.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{env, fs};

use arrow_device_testkit::required::skip;

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/arrow-device-abi/include");
const GUARDS: [&str; 5] = [
    "ARROW_C_DATA_INTERFACE",
    "ARROW_C_DEVICE_DATA_INTERFACE",
    "ARROW_C_STREAM_INTERFACE",
    "ARROW_C_DEVICE_STREAM_INTERFACE",
    "ARROW_C_ASYNC_STREAM_INTERFACE",
];

const OURS: &str = "#include <arrow_device/abi.h>\n";
const OUR_DLPACK: &str = "#include <arrow_device/dlpack_abi.h>\n";

/// Uses one struct of each Arrow interface.
const USE: &str = "
int main(void) {
  struct ArrowSchema schema = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  struct ArrowDeviceArray array = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, -1, ARROW_DEVICE_CPU, 0, {0, 0, 0}};
  struct ArrowArrayStream stream = {0, 0, 0, 0, 0};
  struct ArrowDeviceArrayStream device_stream = {ARROW_DEVICE_MAIA, 0, 0, 0, 0, 0};
  struct ArrowAsyncProducer producer = {ARROW_DEVICE_CUDA, 0, 0, 0, 0};
  struct ArrowAsyncDeviceStreamHandler handler = {0, 0, 0, 0, 0, 0};
  handler.producer = &producer;
  return schema.release || array.array.release || stream.release || device_stream.release ||
         handler.release;
}
";

/// Uses the tensors of DLPack.
const USE_DLPACK: &str = "
int main(void) {
  DLDevice device = {kDLTrn, 0};
  DLManagedTensorVersioned versioned;
  DLManagedTensor legacy;
  legacy.deleter = 0;
  versioned.deleter = 0;
  versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  return legacy.deleter || versioned.deleter || !versioned.flags || device.device_type == kDLCPU;
}
";

// Requirement: ABI-4
#[test]
fn the_header_compiles_alone_and_twice() {
    compiles(&[OURS, USE]);
    compiles(&[OURS, OURS, USE]);
    compiles(&[OURS, OUR_DLPACK, USE]);
}

// Requirement: ABI-1, ABI-4
#[test]
fn the_header_compiles_before_and_after_another_copy() {
    let other = guarded(&GUARDS);
    compiles(&[&other, OURS, USE]);
    compiles(&[OURS, &other, USE]);
}

// Requirement: ABI-4
#[test]
fn the_header_adds_what_an_older_copy_lacks() {
    compiles(&[&guarded(&["ARROW_C_DATA_INTERFACE"]), OURS, USE]);
    compiles(&[&guarded(&["ARROW_C_DATA_INTERFACE", "ARROW_C_STREAM_INTERFACE"]), OURS, USE]);
    compiles(&[&guarded(&GUARDS[..4]), OURS, USE]);
}

// Requirement: ABI-1, ABI-4
#[test]
fn a_copy_without_the_reserved_words_is_refused() {
    let wrong = replaced(&guarded(&GUARDS), "  int64_t reserved[3];\n", "");
    refuses(&[&wrong, OURS], "struct ArrowDeviceArray must have 128 bytes");
}

// Requirement: ABI-1, ABI-4
#[test]
fn a_copy_with_swapped_fields_is_refused() {
    let right = "  int64_t device_id;
  // The type of device which can access this memory.
  ArrowDeviceType device_type;
";
    let wrong = "  ArrowDeviceType device_type;\n  int64_t device_id;\n";
    let wrong = replaced(&guarded(&GUARDS), right, wrong);
    refuses(&[&wrong, OURS], "struct ArrowDeviceArray.device_id must be at 80");
}

// Requirement: ABI-1, ABI-4, ABI-7
#[test]
fn a_copy_whose_async_producer_has_a_release_is_refused() {
    let wrong = replaced(
        &guarded(&GUARDS),
        "  void (*cancel)(struct ArrowAsyncProducer* self);\n",
        "  void (*cancel)(struct ArrowAsyncProducer* self);
  void (*release)(struct ArrowAsyncProducer* self);
",
    );
    refuses(&[&wrong, OURS], "struct ArrowAsyncProducer must have 40 bytes");
    refuses(&[&wrong, OURS], "struct ArrowAsyncProducer.additional_metadata must be at 24");
}

// Requirement: ABI-2, ABI-4
#[test]
fn a_copy_with_another_device_type_is_refused() {
    let wrong = replaced(
        &guarded(&GUARDS),
        "typedef int32_t ArrowDeviceType",
        "typedef int64_t ArrowDeviceType",
    );
    refuses(&[&wrong, OURS], "ArrowDeviceType must be an int32_t");
    let unsigned = replaced(
        &guarded(&GUARDS),
        "typedef int32_t ArrowDeviceType",
        "typedef uint32_t ArrowDeviceType",
    );
    refuses(&[&unsigned, OURS], "ArrowDeviceType must be an int32_t");
}

// Requirement: ABI-3, ABI-4
#[test]
fn a_copy_with_another_number_for_a_device_is_refused() {
    let wrong = replaced(&guarded(&GUARDS), "ARROW_DEVICE_METAL 8", "ARROW_DEVICE_METAL 6");
    refuses(&[&wrong, OURS], "must be 8");
}

// Requirement: ABI-4
#[test]
fn a_wrong_copy_that_comes_later_does_no_harm() {
    let wrong = replaced(&guarded(&GUARDS), "  int64_t reserved[3];\n", "");
    compiles(&[OURS, &wrong, USE]);
}

// Requirement: DLP-1
#[test]
fn the_dlpack_header_compiles_alone_and_before_and_after_another_copy() {
    let other = guarded(&["DLPACK_DLPACK_H_"]);
    compiles(&[OUR_DLPACK, USE_DLPACK]);
    compiles(&[OUR_DLPACK, OUR_DLPACK, USE_DLPACK]);
    compiles(&[&other, OUR_DLPACK, USE_DLPACK]);
    compiles(&[OUR_DLPACK, &other, USE_DLPACK]);
}

// Requirement: DLP-1
#[test]
fn a_dlpack_copy_of_version_1_0_is_enough() {
    let table =
        "// Keeps its place in every major version.\ntypedef struct DLPackExchangeAPIHeader";
    let other = guarded(&["DLPACK_DLPACK_H_"]);
    let other = replaced(&other, "DLPACK_MINOR_VERSION 3", "DLPACK_MINOR_VERSION 0");
    let start = other.find(table).expect("the function table is there");
    let end =
        other[start..].find("} DLPackExchangeAPI;\n").expect("the function table ends") + start;
    let without_table = other[..start].to_owned() + &other[end + "} DLPackExchangeAPI;\n".len()..];
    compiles(&[&without_table, OUR_DLPACK, USE_DLPACK]);
}

// Requirement: DLP-1
#[test]
fn wrong_dlpack_copies_are_refused() {
    let other = guarded(&["DLPACK_DLPACK_H_"]);
    let without_flags = replaced(&other, "  uint64_t flags;\n", "");
    refuses(&[&without_flags, OUR_DLPACK], "DLManagedTensorVersioned must have 80 bytes");
    let swapped = replaced(
        &other,
        "  void* manager_ctx;\n  void (*deleter)(struct DLManagedTensor* self);\n",
        "  void (*deleter)(struct DLManagedTensor* self);\n  void* manager_ctx;\n",
    );
    refuses(&[&swapped, OUR_DLPACK], "DLManagedTensor.deleter must be at 56");
    let old = "#define DLPACK_DLPACK_H_\n#include <stdint.h>\n#define DLPACK_VERSION 80\n";
    refuses(&[old, OUR_DLPACK], "older than 1.0");
    let next_major = replaced(&other, "DLPACK_MAJOR_VERSION 1", "DLPACK_MAJOR_VERSION 2");
    refuses(&[&next_major, OUR_DLPACK], "another major version");
}

// Requirement: ABI-4
#[test]
fn each_canonical_guard_appears_exactly_as_specified() {
    let text = header("abi.h");
    for guard in GUARDS {
        let lines = format!("#ifndef {guard}\n#  define {guard}\n");
        assert_eq!(text.matches(&lines).count(), 1, "{guard}");
        assert_eq!(text.matches(&format!("\n#endif  // {guard}\n")).count(), 1, "{guard}");
    }
    assert!(
        header("dlpack_abi.h").contains("\n#ifndef DLPACK_DLPACK_H_\n#define DLPACK_DLPACK_H_\n")
    );
}

// Requirement: ABI-6
#[test]
fn the_headers_include_only_standard_types() {
    for name in ["abi.h", "dlpack_abi.h"] {
        let text = header(name);
        let includes: Vec<_> = text.lines().filter(|line| line.contains("include <")).collect();
        assert_eq!(includes, ["#include <stddef.h>", "#include <stdint.h>"], "{name}");
        assert!(!text.contains("include \""), "{name}");
    }
}

// Requirement: ABI-6
#[test]
fn the_crate_depends_on_nothing() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "arrow-device-abi",
            "--edges",
            "all",
            "--prefix",
            "none",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    assert_eq!(tree.lines().count(), 1, "{tree}");
    assert!(tree.starts_with("arrow-device-abi "), "{tree}");
}

/// Asserts that every compiler accepts the file made of these parts, and has nothing to say about
/// it.
fn compiles(parts: &[&str]) {
    for compiler in compilers() {
        let (accepted, diagnostics) = compiler.compile(&parts.concat());
        assert!(accepted, "{compiler:?} refuses:\n{diagnostics}");
        assert_eq!(diagnostics, "", "{compiler:?}");
    }
}

/// Asserts that every compiler refuses the file made of these parts, with a text that contains
/// `reason`.
fn refuses(parts: &[&str], reason: &str) {
    for compiler in compilers() {
        let (accepted, diagnostics) = compiler.compile(&parts.concat());
        assert!(!accepted, "{compiler:?} accepts a wrong copy");
        assert!(
            diagnostics.contains(reason),
            "{compiler:?} refuses for another reason:\n{diagnostics}"
        );
    }
}

#[derive(Debug)]
struct Compiler {
    program: OsString,
    standard: &'static str,
    extension: &'static str,
}

fn compilers() -> Vec<Compiler> {
    let named = |variable, default: &str| env::var_os(variable).unwrap_or_else(|| default.into());
    let c = |program| Compiler { program, standard: "-std=c11", extension: "c" };
    let cpp = |program| Compiler { program, standard: "-std=c++17", extension: "cpp" };
    let mut compilers = vec![c(named("CC", "cc")), cpp(named("CXX", "c++"))];
    for clang in [c("clang".into()), cpp("clang++".into())] {
        if clang.is_installed() {
            compilers.push(clang);
        } else {
            skip("clang", &format!("{} not found", clang.program.display()));
        }
    }
    compilers
}

impl Compiler {
    fn is_installed(&self) -> bool {
        let mut command = Command::new(&self.program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Compiles a file with this text and returns whether that succeeded and what the compiler
    /// wrote.
    fn compile(&self, text: &str) -> (bool, String) {
        let source = fresh_path(self.extension);
        fs::write(&source, text).expect("the build folder is writable");
        let output = Command::new(&self.program)
            .args([
                self.standard,
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-I",
            ])
            .args([Path::new(INCLUDE), &source])
            .env("LC_ALL", "C")
            .output()
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A path that no other test uses.
fn fresh_path(extension: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("header-{}-{number}.{extension}", std::process::id()))
}

fn header(name: &str) -> String {
    fs::read_to_string(Path::new(INCLUDE).join("arrow_device").join(name))
        .expect("the header is there")
}

/// What another project's header has: the blocks under these guards, out of our headers.
fn guarded(guards: &[&str]) -> String {
    let text = header("abi.h") + &header("dlpack_abi.h");
    let block = |guard: &str| {
        let (start, end) = (format!("#ifndef {guard}\n"), format!("#endif  // {guard}\n"));
        let from = text.find(&start).unwrap_or_else(|| panic!("{guard} is there"));
        let to =
            text[from..].find(&end).unwrap_or_else(|| panic!("{guard} ends")) + from + end.len();
        text[from..to].to_owned()
    };
    let blocks: String = guards.iter().map(|guard| block(guard)).collect();
    format!(
        "#include <stdint.h>
#ifdef __cplusplus
extern \"C\" {{
#endif
{blocks}
#ifdef __cplusplus
}}
#endif
"
    )
}

/// The text with one passage replaced, which must be there.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to)
}
