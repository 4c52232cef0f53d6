//! Graphs: made of a capture, launched, destroyed.

use std::ffi::c_int;

use crate::call::{call, give};
use crate::code::Code;

/// The flags choose what this driver does not have, and have to be 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    out: *mut usize,
    graph: usize,
    flags: u64,
) -> c_int {
    call("cuGraphInstantiateWithFlags", &[("graph", graph as u64)], |machine| {
        machine.current()?;
        if flags != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let launched = machine.instantiate(graph)?;
        // SAFETY: as the module says.
        unsafe { give(out, launched) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(graph: usize, stream: usize) -> c_int {
    let arguments = [("graph", graph as u64), ("stream", stream as u64)];
    call("cuGraphLaunch", &arguments, |machine| {
        let device = machine.current()?;
        machine.launch_graph(device, graph, stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(graph: usize) -> c_int {
    call("cuGraphExecDestroy", &[("graph", graph as u64)], |machine| {
        machine.current()?;
        machine.destroy_graph(graph, true)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: usize) -> c_int {
    call("cuGraphDestroy", &[("graph", graph as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.destroy_graph(graph, false)
    })
}
