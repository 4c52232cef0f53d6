//! The example runs to its end.

#[path = "../../examples/dsp_kernel/main.rs"]
mod kernel;

#[test]
fn the_kernel_runs() {
    kernel::main().unwrap();
}
