//! The example runs to its end.

#[path = "../../examples/wgsl_kernel/main.rs"]
mod kernel;

use crate::support;

#[test]
fn the_kernel_runs() {
    if support::is_there() {
        kernel::main().unwrap();
    }
}
