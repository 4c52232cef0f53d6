//! Generates, with `ctest`, one Rust and one C file for each set of declarations to be compared
//! with the headers: the declarations of `arrow-device-abi`, and those of `src/wrong.rs`, which
//! must not pass.

use ctest::{TestGenerator, generate_test};

fn main() {
    println!("cargo::rerun-if-changed=../../crates/arrow-device-abi");
    println!("cargo::rerun-if-changed=src/wrong.rs");
    let results = [
        generate_test(&mut generator(), "../../crates/arrow-device-abi/src/lib.rs", "right.rs")
            .err(),
        generate_test(&mut wrong_generator(), "src/wrong.rs", "wrong.rs").err(),
    ];
    for error in results.iter().flatten() {
        println!("cargo::error={error}");
    }
}

/// Compares what Rust and C have under the same name. A field of a type that C does not have there
/// fails the build.
fn generator() -> TestGenerator {
    let mut generator = TestGenerator::new();
    generator
        .header("arrow_device/abi.h")
        .header("arrow_device/dlpack_abi.h")
        .include("../../crates/arrow-device-abi/include")
        .edition(2024)
        .flag("-std=c11")
        .flag("-Werror")
        // The layout assertions of arrow-device-abi itself.
        .skip_const(|constant| constant.ident() == "_")
        // DLPack's structs are typedefs without a tag, or with a typedef of the same name.
        .rename_struct_ty(|name| name.starts_with("DL").then(|| name.to_owned()));
    generator
}

/// Compares each wrong declaration with the right one that it stands for.
fn wrong_generator() -> TestGenerator {
    let mut generator = generator();
    generator
        .rename_struct_ty(|name| {
            name.ends_with("DeviceArray").then(|| "struct ArrowDeviceArray".to_owned())
        })
        .rename_alias(|alias| {
            (alias.ident() == "NarrowDeviceType").then(|| "ArrowDeviceType".to_owned())
        })
        .rename_type(|name| (name == "NarrowDeviceType").then(|| "ArrowDeviceType".to_owned()))
        .rename_constant(|constant| {
            (constant.ident() == "WRONG_DEVICE_CUDA").then(|| "ARROW_DEVICE_CUDA".to_owned())
        })
        // C refuses these two types outright; the sizes are what is to be compared.
        .skip_struct_field_type(|structure, field| {
            field.ident() == "array"
                || (structure.ident(), field.ident()) == ("StingyDeviceArray", "reserved")
        });
    generator
}
