//! Links the shared library so that it stays where it is loaded: arrays that were handed on call
//! back into it as long as they live. And gives it the name that programs find it by. Names have no
//! versions: rustc's own version script leaves no room for them with every linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The test of the binary interface compiles these sources with it.
    println!("cargo::rustc-check-cfg=cfg(ardev_grown)");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarrow_device.so.0");
    }
}
