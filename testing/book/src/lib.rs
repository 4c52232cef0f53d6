//! The Rust programs of the book, run as documentation tests.
//!
//! Each chapter in `book/src` with a program in Rust has a line here, but for the chapter on
//! engines, whose programs are tests of `arrow-device-datafusion`, because they need DataFusion.
//! The programs of the other languages are tests of `arrow-device-capi` and of the Python package.
//! `cargo xtask lint book` sees to it that no chapter is left out.

/// A chapter, whose programs become tests.
macro_rules! chapter {
    ($(#[$when:meta])* $name:ident, $file:literal) => {
        #[cfg(doctest)]
        $(#[$when])*
        #[doc = include_str!(concat!("../../../book/src/", $file))]
        struct $name;
    };
}

chapter!(First, "first.md");
chapter!(Producers, "producers.md");
chapter!(Consumers, "consumers.md");
chapter!(Streams, "streams.md");
chapter!(Asynchronous, "async.md");
chapter!(Ownership, "ownership.md");
chapter!(Devices, "devices.md");
chapter!(Tensors, "dlpack.md");
chapter!(Testing, "testing.md");
chapter!(Checking, "checking.md");
chapter!(Faults, "faults.md");
chapter!(Backend, "backend.md");
chapter!(Ipc, "ipc.md");
chapter!(
    #[cfg(target_os = "linux")]
    Processes,
    "processes.md"
);
chapter!(Costs, "costs.md");
