//! The example runs to its end.

#[path = "../../examples/wgpu_shader/main.rs"]
mod shader;

use crate::support;

#[test]
fn the_shader_runs() {
    if support::application().is_some() {
        shader::main().unwrap();
    }
}
