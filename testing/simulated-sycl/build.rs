//! Links the shared library so that it stays, since a test's last device may go after the library's
//! handle; and small, since each test copies it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,--strip-all");
    }
}
