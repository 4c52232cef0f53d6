//! Graphs: the copies of the driver's memory that were captured, to be made each time that the
//! graph is launched.
//!
//! Kernels and functions of the host are not kept: they are the closures of a test, which are
//! called once. Nor are copies of ordinary memory, which need not be there any more.

use arrow_device_sim::hardware::Stretch;

use crate::call::Then;
use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::memory::Pageable;

/// A graph, or what was made of one to be launched.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// In the order in which they were captured; those of one entry have no order.
    copies: Vec<Vec<Stretch>>,
    can_be_launched: bool,
}

impl Machine {
    /// What a capture has kept becomes a graph with this handle.
    pub(crate) fn add_graph(&mut self, handle: usize, copies: Vec<Vec<Stretch>>) {
        self.graphs.insert(handle, Graph { copies, can_be_launched: false });
    }

    fn graph(&mut self, handle: usize, can_be_launched: bool) -> Answer<Graph> {
        let found =
            self.graphs.get(&handle).filter(|found| found.can_be_launched == can_be_launched);
        match found.cloned() {
            Some(found) => Ok(found),
            None => Err(self.misuse(
                "UnknownHandle",
                Code::INVALID_VALUE,
                "This handle is no graph of the driver, or not one of the kind that the call takes, or it was destroyed.",
            )),
        }
    }

    /// Makes of a graph what can be launched: a copy, which does not need the graph any more.
    pub(crate) fn instantiate(&mut self, graph: usize) -> Answer<usize> {
        let Graph { copies, .. } = self.graph(graph, false)?;
        let handle = self.new_handle();
        self.graphs.insert(handle, Graph { copies, can_be_launched: true });
        Ok(handle)
    }

    /// Submits all that is in the graph to a stream. Whether memory is still there is looked at
    /// now.
    pub(crate) fn launch_graph(&mut self, current: usize, graph: usize, stream: usize) -> Answer {
        let Graph { copies, .. } = self.graph(graph, true)?;
        for stretches in copies {
            // SAFETY: only memory of the driver becomes part of a graph here, and it is looked up
            // anew: what is not there any more is refused.
            let then = unsafe { self.copies(current, stream, &stretches, Pageable::Waits) }?;
            debug_assert!(
                matches!(then, Then::Return),
                "a graph has copies of the driver's memory"
            );
        }
        Ok(())
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize, can_be_launched: bool) -> Answer {
        self.graph(graph, can_be_launched)?;
        self.graphs.remove(&graph);
        Ok(())
    }
}
