//! What waits for its last use is given back when memory runs out. Alone in its process: the list
//! is the process's.

use arrow_device::{Device, ErrorKind, Queue};
use arrow_device_sim::Sim;
use arrow_device_testkit::process;

/// Memory that its queue still has to pass.
fn on_its_way_back(sim: &Sim, device: &Device, queue: &Queue) {
    let mut memory = device.allocate(32).unwrap();
    let spot = memory.spot(queue).unwrap();
    sim.fill(queue, spot, 32, 1).unwrap();
}

/// Requirement: ARR-20, SAF-22
#[test]
fn an_allocation_waits_for_memory_that_is_on_its_way_back() {
    process::alone(each_seed_waits);
}

fn each_seed_waits() {
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let sim = Sim::builder().seed(seed).memory_limit(64).build();
        let device = sim.device();
        let queue = device.open_queue().unwrap();
        let kept = device.allocate(32).unwrap();
        on_its_way_back(&sim, &device, &queue);
        assert_eq!(sim.allocated(), 64, "freed before the queue passed");
        let second = device.allocate(32).unwrap();
        let error = device.allocate(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        drop((second, kept));

        // What is older and another device's would help nobody here, so it is not waited for.
        let other = Sim::builder().seed(seed).build();
        let far = other.device().open_queue().unwrap();
        on_its_way_back(&other, &other.device(), &far);
        on_its_way_back(&sim, &device, &queue);
        assert!(device.allocate(64).is_ok());
        assert_eq!(other.allocated(), 32, "waited for");
    }
}
