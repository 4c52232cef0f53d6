//! Has the module export its table of functions, which JavaScript adds release callbacks to.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-cdylib=--export-table");
        println!("cargo::rustc-link-arg-cdylib=--growable-table");
    }
}
