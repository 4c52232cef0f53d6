//! A device that is lost, and others that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::{ErrorKind, Queue};
use arrow_device_sim::{Builder, Call, Schedule, Sim};

use crate::support::seeds;

/// Submits work that counts itself when it runs.
fn count(sim: &Sim, queue: &Queue, runs: &Arc<AtomicUsize>) {
    let runs = runs.clone();
    let kernel = sim.kernel("count");
    kernel.launch(queue, move |_| _ = runs.fetch_add(1, Ordering::SeqCst)).unwrap();
}

/// Loses the first device, and no other.
fn lose_the_first(sim: &Sim) {
    sim.lose_device_in(Call::OpenQueue, 1);
    assert_eq!(sim.device().open_queue().unwrap_err().kind(), ErrorKind::DeviceLost);
}

/// Each simulator has three devices.
fn on_every_seed(test: fn(&Sim)) {
    let builders: [fn() -> Builder; 2] = [|| Sim::builder().devices(3), || Sim::builder().peers(3)];
    for build in builders {
        build().schedule(Schedule::Late).sweep(seeds(200), test);
    }
}

#[test]
fn what_waits_for_a_lost_device_never_runs_and_nobody_is_told_that_it_did() {
    on_every_seed(|sim| {
        let queues = [0, 1, 2].map(|number| sim.device_number(number).open_queue().unwrap());
        let [first, second, third] = &queues;
        let runs = Arc::default();
        count(sim, first, &runs);
        second.wait(&first.record().unwrap()).unwrap();
        count(sim, second, &runs);
        // Behind the lost device by way of another one.
        third.wait(&second.record().unwrap()).unwrap();
        count(sim, third, &runs);
        let events = [second.record().unwrap(), third.record().unwrap()];
        lose_the_first(sim);
        sim.run_until_idle();
        for (queue, event) in [second, third].into_iter().zip(&events) {
            let lost = |result: arrow_device::Result<()>| {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::DeviceLost);
            };
            lost(event.is_complete().map(drop));
            lost(event.synchronize());
            lost(queue.synchronize());
            lost(queue.is_idle().map(drop));
            lost(sim.kernel("later").launch(queue, |_| {}));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_device_that_waits_for_nothing_of_a_lost_one_goes_on() {
    on_every_seed(|sim| {
        let queues = [0, 1, 2].map(|number| sim.device_number(number).open_queue().unwrap());
        let [first, second, third] = &queues;
        let (runs, of_first) = (Arc::default(), Arc::default());
        count(sim, first, &of_first);
        let event = first.record().unwrap();
        second.wait(&event).unwrap();
        event.synchronize().unwrap();
        // What was waited for has run. What has not run is waited for by nobody.
        count(sim, first, &of_first);
        count(sim, second, &runs);
        count(sim, third, &runs);
        lose_the_first(sim);
        second.synchronize().unwrap();
        third.synchronize().unwrap();
        let runs = [&runs, &of_first].map(|runs| runs.load(Ordering::SeqCst));
        assert_eq!(runs, [2, 1]);
        assert!(second.is_idle().unwrap() && third.is_idle().unwrap());
    });
}
