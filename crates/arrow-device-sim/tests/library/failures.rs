//! Work that was accepted and fails later.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, DataType, ErrorKind, Queue, Recycler, Result};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::release_until;

use crate::support::seeds;

fn on_every_kind(test: impl Fn(&Sim)) {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).devices(2).sweep(seeds(40), &test);
    }
}

/// Numbers that a kernel still has to write.
fn pending_numbers(sim: &Sim, queue: &Queue) -> Result<Array> {
    let mut memory = queue.allocate(64)?;
    let spot = memory.spot(queue)?;
    let kernel = sim.kernel("produce").writes(spot, 64);
    kernel.launch(queue, |memory| memory.set_values(0, &[1_i64, 2, 3, 4, 5, 6, 7, 8]))?;
    // SAFETY: the kernel writes them.
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(queue)
}

/// Numbers of which the kernel fails that is to write them.
fn failing_numbers(sim: &Sim, queue: &Queue) -> Array {
    sim.fail_later(1);
    pending_numbers(sim, queue).unwrap()
}

#[track_caller]
fn assert_failed<T>(result: Result<T>) {
    assert_eq!(result.map(drop).unwrap_err().kind(), ErrorKind::WorkFailed);
}

#[test]
fn a_failure_that_comes_later_is_told_to_whoever_asks_and_for_ever() {
    on_every_kind(|sim| {
        let queue = sim.device().open_queue().unwrap();
        sim.kernel("good").launch(&queue, |_| {}).unwrap();
        let before = queue.record().unwrap();
        sim.fail_later(1);
        sim.kernel("failing").launch(&queue, |_| panic!("it runs")).unwrap();
        let behind = queue.record().unwrap();
        sim.run_until_idle();
        for _ in 0..2 {
            assert!(before.is_complete().unwrap());
            before.synchronize().unwrap();
            assert_failed(behind.is_complete());
            assert_failed(behind.synchronize());
            assert_failed(behind.wait_timeout(Duration::from_millis(1)));
            assert_failed(queue.synchronize());
            assert_failed(queue.is_idle());
        }
        assert_failed(sim.kernel("later").launch(&queue, |_| {}));
        assert_failed(queue.record().and_then(|event| event.synchronize()));
    });
}

/// Requirement: SAF-6, SAF-9, SAF-39
#[test]
fn an_array_of_failed_work_is_never_shown_as_ready() {
    on_every_kind(|sim| {
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let array = failing_numbers(sim, &one);
        // A queue that waits for the failed work makes nothing that is good, either.
        let behind = array.on(&two).and_then(|view| {
            let from = view.buffer(1).location().spot();
            sim.kernel("consume").reads(from, 64).launch(&two, |_| {})?;
            drop(view);
            pending_numbers(sim, &two)
        });
        let schema = array.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        // SAFETY: exported just now.
        let travelled = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
        sim.run_until_idle();
        for array in [&array, &travelled, &array.slice(1, 2).unwrap()].into_iter().chain(&behind) {
            for _ in 0..2 {
                assert_failed(array.is_ready());
                assert_failed(array.wait());
                assert_failed(array.to_host());
                let other = sim.device_number(1).open_queue().unwrap();
                assert_failed(array.copy_to(&other).and_then(|copy| copy.wait()));
                let fresh = sim.device().open_queue().unwrap();
                let there = array.copy_to(&fresh).and_then(|copy| copy.wait());
                assert_failed(there);
                let host = array.host().map(drop).unwrap_err().kind();
                assert!(matches!(host, ErrorKind::WorkFailed | ErrorKind::Unsupported), "{host}");
            }
        }
    });
}

/// Requirement: SAF-13, SAF-39
#[test]
fn what_failed_work_used_is_released_once_nothing_of_it_runs() {
    on_every_kind(|sim| {
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let released = Arc::new(());
        let array = failing_numbers(sim, &one);
        if let Ok(view) = array.on(&two) {
            let from = view.buffer(1).location().spot();
            let _ = sim.kernel("consume").reads(from, 64).launch(&two, |_| {});
        }
        one.keep_until_done(released.clone());
        two.keep_until_done(released.clone());
        drop((array, one, two));
        sim.run_until_idle();
        let is_released = || Arc::strong_count(&released) == 1 && sim.allocated() == 0;
        assert!(release_until(is_released));
    });
}

type Journey = fn(&Sim, &Array) -> Result<Array>;

fn to_device_and_back(sim: &Sim, array: &Array) -> Result<Array> {
    let queue = sim.device().open_queue()?;
    array.copy_to(&queue)?.to_host()
}

fn to_the_other(sim: &Sim, array: &Array) -> Result<Array> {
    let (one, other) = (sim.device().open_queue()?, sim.device_number(1).open_queue()?);
    let options = arrow_device::copy::Options::new().chunk(128);
    array.copy_to(&one)?.copy_with(&other, &options)?.to_host()
}

/// Requirement: SAF-13, SAF-14
#[test]
fn whichever_work_of_a_copy_fails_the_copy_says_so_and_all_is_freed() {
    let text = (0..64).map(|number| (number % 3 > 0).then(|| format!("text {number}")));
    let array = Array::from_texts(DataType::Utf8, text).unwrap();
    let journeys: [Journey; 2] = [to_device_and_back, to_the_other];
    let builders: [fn() -> Builder; 2] = [|| Sim::builder().devices(2), || Sim::builder().peers(2)];
    for (journey, (build, kind)) in journeys.into_iter().flat_map(|journey| {
        builders.into_iter().flat_map(move |build| Kind::ALL.map(|kind| (journey, (build, kind))))
    }) {
        let mut failed = 0;
        let runs = build().kind(kind).for_each_late_failure(|sim| match journey(sim, &array) {
            Ok(back) => assert!(back.equals(&array).unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
                failed += 1;
            }
        });
        assert_eq!(failed, runs - 1, "{kind:?}: every failure is told");
    }
}

// Requirement: SAF-39
#[test]
fn a_recycler_keeps_no_block_of_failed_work() {
    on_every_kind(|sim| {
        let recycler = Recycler::new(1 << 20);
        let device = sim.device().with_allocator(recycler.clone());
        let queue = sim.device().open_queue().unwrap();
        let use_block = |name: &str| {
            let mut memory = device.allocate(64).unwrap();
            let spot = memory.spot(&queue).unwrap();
            sim.kernel(name).writes(spot, 64).launch(&queue, |_| {}).unwrap();
        };
        use_block("good");
        sim.run_until_idle();
        assert!(release_until(|| recycler.kept() == 64));
        sim.fail_later(1);
        use_block("failing");
        sim.run_until_idle();
        // The memory itself may be what failed.
        assert!(release_until(|| sim.allocated() == 0));
        assert_eq!(recycler.kept(), 0);
    });
}
