//! Events that are awaited are announced by functions of the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::async_stream::block_on;
use arrow_device::{Array, DataType};

use crate::{Kind, Machine};

/// On each kind of memory, events and copies end, and the driver was asked to call back.
pub fn awaited_events_are_announced(machine: &Machine) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Devices go on by themselves; these do where somebody waits for all of them.
        threads.spawn(|| {
            let finish = machine.name("cuCtxSynchronize", "hipDeviceSynchronize");
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                machine.entered(|| machine.raw(finish, &[]));
            }
        });
        let _over = Over(&is_over);
        await_on_each_kind(machine);
    });
}

/// Ends a thread that looks at the flag, also where the test panics.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn await_on_each_kind(machine: &Machine) {
    let numbers = Array::from_values(DataType::Int64, (0..1000_i64).map(Some)).unwrap();
    let launch = machine.name("cuLaunchHostFunc", "hipLaunchHostFunc");
    for kind in machine.kinds().iter().filter(|kind| **kind != Kind::Host) {
        let device = machine.open(0, *kind);
        let queue = device.open_queue().unwrap();
        machine.take_calls();
        for _ in 0..5 {
            let stream = queue.raw().bits() as u64;
            let launched = machine.entered(|| machine.sim.kernel("slow").launch(stream, |_| {}));
            assert_eq!(launched, 0);
            let event = queue.record().unwrap();
            block_on(&event).unwrap();
            assert!(event.is_complete().unwrap());
        }
        let called = machine.take_calls();
        assert!(called.iter().any(|call| call == launch), "{kind:?}: {called:?}");
        let there = block_on(numbers.copy_to_async(&queue)).unwrap();
        let back = block_on(there.to_host_async()).unwrap();
        assert!(back.equals(&numbers).unwrap(), "{kind:?}");
    }
}
