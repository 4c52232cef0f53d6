//! Commands that fail, and a DSP that dies.

use std::time::Duration;

use arrow_device::{Array, DataType, ErrorKind, Memory, Queue};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;
use simulated_hexagon::{Work, memory};

use crate::support::{self, array_of, filled, place, values_of};

// Requirement: DRV-27
#[test]
fn a_command_that_fails_fails_what_comes_behind_it_and_nothing_before() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        dsp.submit(Work::Spin(10));
        let before = queue.record().unwrap();
        before.synchronize().unwrap();
        let memory = filled(&queue, &[1, 2]);
        dsp.close_gate();
        dsp.submit(Work::Fail);
        let failing = queue.record().unwrap();
        assert!(!failing.is_complete().unwrap());
        dsp.open_gate();
        assert_eq!(finished(memory, &queue), ErrorKind::WorkFailed);
        let copied = Array::from_values(DataType::Int32, [Some(1)]).unwrap();
        for _ in 0..3 {
            for kind in [
                failing.synchronize().unwrap_err().kind(),
                failing.is_complete().unwrap_err().kind(),
                failing.wait_timeout(Duration::ZERO).unwrap_err().kind(),
                queue.synchronize().unwrap_err().kind(),
                queue.is_idle().unwrap_err().kind(),
                copied.copy_to(&queue).unwrap_err().kind(),
            ] {
                assert_eq!(kind, ErrorKind::WorkFailed);
            }
            assert!(before.is_complete().unwrap());
        }
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
    });
}

/// The error of an array of work that went wrong.
fn finished(memory: Memory, queue: &Queue) -> ErrorKind {
    let buffers = [None, Some(memory.into_buffer())];
    let builder = Array::builder(DataType::Int32).len(1).buffers(buffers);
    builder.finish_on(queue).unwrap_err().kind()
}

/// The program ends in the middle of a command, with a part of the results written.
// Requirement: DRV-28
#[test]
fn a_program_that_dies_loses_the_device_and_nobody_hangs() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        let numbers = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
        let good = array_of(filled(&queue, &[7, 8]), 2, &queue);
        good.wait().unwrap();
        let mut to = filled(&queue, &[0; 4]);
        dsp.close_gate();
        dsp.submit(Work::Die(place(&mut to, &queue), 16));
        let event = queue.record().unwrap();
        let waiting: Vec<_> = [event.clone(), event.clone()]
            .map(|event| std::thread::spawn(move || event.synchronize().unwrap_err().kind()))
            .into();
        dsp.open_gate();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), ErrorKind::DeviceLost);
        }
        for error in [
            event.is_complete().unwrap_err(),
            queue.synchronize().unwrap_err(),
            queue.record().unwrap_err(),
            queue.allocate(64).unwrap_err(),
            device.open_queue().unwrap_err(),
            numbers.copy_to(&queue).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        }
        assert_eq!(finished(to, &queue), ErrorKind::DeviceLost);
        // Memory that no command was using is still there.
        assert_eq!(values_of(&good), [7, 8]);
        drop((good, event, queue, device));
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
        let Some((_dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        assert_eq!(values_of(&array_of(filled(&queue, &[1, 2]), 2, &queue)), [1, 2]);
    });
}

#[test]
fn a_write_that_waits_for_the_ring_ends_when_the_dsp_is_killed() {
    let Some((dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    let mut memory = filled(&queue, &[1, 2]);
    place(&mut memory, &queue);
    dsp.close_gate();
    dsp.submit(Work::Spin(1));
    let writing = std::thread::spawn(move || memory.write(&queue, &[1; 8]));
    dsp.kill();
    assert_eq!(writing.join().unwrap().unwrap_err().kind(), ErrorKind::DeviceLost);
}
