//! A device that is lost, and others that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_device::{ErrorKind, Queue};
use arrow_device_sim::{Builder, Call, KernelMemory, Kind, Mistake, Schedule, Sim};
use arrow_device_testkit::release_until;

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

/// A queue with a kernel that has begun, on a thread that waits for it, and does not end before
/// something is sent.
fn begin_endless(queue: &Queue, sim: &Sim) -> (Sender<()>, JoinHandle<ErrorKind>) {
    let (begun, has_begun) = channel();
    let (end, ended) = channel::<()>();
    let kernel = sim.kernel("endless");
    let run = move |_: &mut KernelMemory| {
        begun.send(()).unwrap();
        let _ = ended.recv();
    };
    kernel.launch(queue, run).unwrap();
    let of_thread = queue.clone();
    let waits = std::thread::spawn(move || of_thread.synchronize().unwrap_err().kind());
    has_begun.recv().unwrap();
    (end, waits)
}

/// Requirement: DRV-28
#[test]
fn a_wait_that_is_under_way_ends_when_another_thread_loses_the_device() {
    for rounds in 0..4 {
        let sim = Sim::builder().build();
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let (end, waits) = begin_endless(&one, &sim);
        let kept = Arc::new(());
        two.keep_until_done(kept.clone());
        sim.kernel("work").launch(&two, |_| {}).unwrap();
        let event = two.record().unwrap();
        let (answer, answered) = channel();
        let waiting = std::thread::spawn(move || {
            let waited = if rounds % 2 == 0 {
                event.synchronize()
            } else {
                event.wait_timeout(Duration::MAX).map(drop)
            };
            answer.send(waited.unwrap_err().kind()).unwrap();
        });
        assert!(answered.recv_timeout(Duration::from_millis(20)).is_err(), "it waits");
        sim.lose_device();
        // The kernel of the other queue has not ended.
        let told = answered.recv_timeout(Duration::from_secs(10));
        assert_eq!(told, Ok(ErrorKind::DeviceLost));
        assert!(release_until(|| Arc::strong_count(&kept) == 1), "nothing is held back");
        end.send(()).unwrap();
        assert_eq!(waits.join().unwrap(), ErrorKind::DeviceLost);
        waiting.join().unwrap();
        drop((one, two));
    }
}

/// Requirement: DRV-21
#[test]
fn a_kernel_that_runs_when_its_device_is_lost_writes_nothing_any_more() {
    let sim = Sim::builder().kind(Kind::HostReadable).build();
    let device = sim.device();
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    let spot = memory.spot(&queue).unwrap();
    sim.fill(&queue, spot, 64, 1).unwrap();
    queue.synchronize().unwrap();
    let address = unsafe { device.driver().map(spot, 64) }.unwrap();
    let bytes = || unsafe { std::slice::from_raw_parts(address.as_ptr(), 64) }.to_vec();
    std::thread::scope(|scope| {
        let (begun, has_begun) = channel();
        let (end, ended) = channel::<()>();
        sim.kernel("endless")
            .writes(spot, 64)
            .launch(&queue, move |memory| {
                memory.output(0).fill(2);
                begun.send(()).unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let waits = scope.spawn(|| queue.synchronize());
        has_begun.recv().unwrap();
        sim.lose_device();
        end.send(()).unwrap();
        assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::DeviceLost);
    });
    assert_eq!(bytes(), [1; 64]);
    unsafe { device.driver().unmap(spot, 64, address) };
    let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
    assert_eq!(kinds, [Mistake::WriteWhileMapped], "of the kernel, as it was submitted");
    drop(memory);
}

#[test]
fn a_device_may_be_lost_in_the_middle_of_a_wait() {
    let sim = Arc::new(Sim::builder().build());
    let queue = sim.device().open_queue().unwrap();
    let other = sim.device().open_queue().unwrap();
    let loses = Arc::downgrade(&sim);
    let kernel = sim.kernel("the last one");
    kernel.launch(&queue, move |_| loses.upgrade().unwrap().lose_device()).unwrap();
    let (event, behind) = (queue.record().unwrap(), other.record().unwrap());
    assert_eq!(event.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    for event in [event, behind] {
        assert_eq!(event.is_complete().unwrap_err().kind(), ErrorKind::DeviceLost);
    }
}
