//! Links the shared library so that it stays where it is loaded: arrays that were handed on call
//! back into it as long as they live. And gives it the name that programs find it by.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarrow_device.so.0");
    }
}
