//! What waits for its last use is given back when memory runs out. Alone in its process: the list is the process's.
#![allow(clippy::unwrap_used)]

use arrow_device::ErrorKind;
use arrow_device_sim::Sim;

/// Requirement: ARR-20
#[test]
fn an_allocation_waits_for_memory_that_is_on_its_way_back() {
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let sim = Sim::builder().seed(seed).memory_limit(64).build();
        let queue = sim.device().open_queue().unwrap();
        let mut first = sim.device().allocate(32).unwrap();
        let kept = sim.device().allocate(32).unwrap();
        let spot = first.spot(&queue).unwrap();
        sim.fill(&queue, spot, 32, 1).unwrap();
        drop(first);
        assert_eq!(sim.allocated(), 64, "freed before the queue passed");
        let second = sim.device().allocate(32).unwrap();
        let error = sim.device().allocate(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        drop((second, kept));
    }
}
