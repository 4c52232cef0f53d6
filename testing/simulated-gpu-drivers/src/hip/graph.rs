//! Graphs: made of a capture, launched, destroyed.

use std::ffi::{c_char, c_int};

use crate::call::give;
use crate::hip::call::call;

/// The node of an error and a text about it are not written.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphInstantiate(
    out: *mut usize,
    graph: usize,
    _node: *mut usize,
    _text: *mut c_char,
    _len: usize,
) -> c_int {
    call("hipGraphInstantiate", &[("graph", graph as u64)], |machine| {
        machine.chosen()?;
        let launched = machine.instantiate(graph)?;
        // SAFETY: as the module says.
        unsafe { give(out, launched) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphLaunch(graph: usize, stream: usize) -> c_int {
    let arguments = [("graph", graph as u64), ("stream", stream as u64)];
    call("hipGraphLaunch", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.launch_graph(device, graph, stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphExecDestroy(graph: usize) -> c_int {
    call("hipGraphExecDestroy", &[("graph", graph as u64)], |machine| {
        machine.chosen()?;
        machine.destroy_graph(graph, true)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphDestroy(graph: usize) -> c_int {
    call("hipGraphDestroy", &[("graph", graph as u64)], |machine| {
        machine.chosen()?;
        machine.destroy_graph(graph, false)
    })
}
