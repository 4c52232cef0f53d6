//! Makes every struct with a `struct_size` longer than its header says.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(ardev_grown)");
    println!("cargo::rustc-cfg=ardev_grown");
}
