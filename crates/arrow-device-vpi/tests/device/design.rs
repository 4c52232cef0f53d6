//! Registers, time and unknown bits of a design.

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Device, ErrorKind};
use arrow_device_vpi::{Job, Options, Simulator};

use crate::support::{self, top};

#[test]
fn registers_have_their_values() {
    let Some(device) = support::with(&support::units()) else { return };
    let simulator = support::simulator(&device);
    assert_eq!(simulator.value(&top("wide")).unwrap(), 0x0123_4567_89ab_cdef);
    assert_eq!(simulator.value(&top("byte_wide")).unwrap(), 0x5a);
    assert_eq!(simulator.value(&top("inverted")).unwrap(), 1);
    for value in [0, 1, 255] {
        // SAFETY: UNS-15 and UNS-16: the register is connected to nothing.
        unsafe { simulator.set(&top("byte_wide"), value) }.unwrap();
        assert_eq!(simulator.value(&top("byte_wide")).unwrap(), value);
    }
    // SAFETY: UNS-15 and UNS-16: the register is connected to nothing.
    let refused = unsafe { simulator.set(&top("byte_wide"), 256) }.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("has 8 bits, which are too few for 256"), "{refused}");
    assert_eq!(simulator.unknown_bytes(), 0);
    assert_eq!(simulator.value(&top("half_known")).unwrap(), 0x12);
    assert_eq!(simulator.unknown_bytes(), 1);
}

#[test]
fn a_name_of_nothing_is_an_error_and_the_device_goes_on() {
    let Some(device) = support::device() else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    for name in
        ["", "arrow_device_top.nothing", "arrow_device_top.ram", "arrow_device_top.ram.mem", "\0"]
    {
        let refused = simulator.value(name).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name:?}: {refused}");
    }
    // SAFETY: UNS-15 and UNS-16: there is no such unit.
    unsafe { simulator.submit(&queue, Job::new("tb.start", "tb.done")) }.unwrap();
    let failed = queue.synchronize().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::WorkFailed);
    assert!(failed.to_string().contains("the design has nothing named `tb.start`"), "{failed}");
    let other = device.open_queue().unwrap();
    support::assert_numbers(&support::numbers().copy_to(&other).unwrap());
}

#[test]
fn a_job_is_refused_on_a_queue_of_another_device() {
    let Some(device) = support::device() else { return };
    let other = support::device().unwrap();
    let queue = other.open_queue().unwrap();
    let simulator = support::simulator(&device);
    // SAFETY: UNS-15 and UNS-16: the job is refused.
    let refused = unsafe { simulator.submit(&queue, Job::new("a", "b")) }.unwrap_err();
    assert!(refused.to_string().contains("the queue is one of another device"), "{refused}");
    let refused = Simulator::of(&Device::host()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn time_goes_on_when_it_is_told_to() {
    let Some(device) = support::device() else { return };
    let simulator = support::simulator(&device);
    simulator.run(0).unwrap();
    let before = simulator.time();
    simulator.run(12_345).unwrap();
    assert_eq!(simulator.time() - before, 12_345);
    // The built-in design has no time scale, so a unit is a second.
    assert_eq!(simulator.precision(), 0);
}

#[test]
fn memory_that_nobody_wrote_is_unknown_and_reads_as_zero() {
    let Some(device) = support::device() else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    let mut memory = queue.allocate(128).unwrap();
    memory.write(&queue, &[7; 70]).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [1_u8; 128];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    // SAFETY: UNS-21: both places have as many bytes, and the queue is waited for below.
    unsafe { queue.copy(Route::ToHost, &[Region { from, to, len: 128 }]) }.unwrap();
    queue.synchronize().unwrap();
    assert_eq!((&bytes[..70], &bytes[70..]), (&[7; 70][..], &[0; 58][..]));
    assert_eq!(simulator.unknown_bytes(), 58);
}

#[test]
fn the_reset_of_a_design_is_over_before_it_is_used() {
    let Some(device) = support::with(&support::words()) else { return };
    let simulator = support::simulator(&device);
    assert_eq!(simulator.value("tb.reset").unwrap(), 0);
    // The counter has eight bits and begins at 250: copies go on when it begins anew at 0.
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    memory.write(&queue, &[3; 32]).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let (from, to) = (Spot { base, offset: 0 }, Spot { base, offset: 32 });
    for _ in 0..20 {
        // SAFETY: UNS-21: both places have as many bytes, and the queue is waited for below.
        unsafe { queue.copy(Route::Within, &[Region { from, to, len: 32 }]) }.unwrap();
    }
    queue.synchronize().unwrap();
    assert_eq!(simulator.value("tb.completed").unwrap(), (250 + 20) % 256);
    assert_eq!(simulator.value("tb.nothing").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn names_that_are_not_the_designs_are_errors_of_open() {
    if !support::is_there() {
        return;
    }
    let dma = arrow_device_vpi::Dma { start: "tb.x".into(), ..Default::default() };
    for (options, name) in [
        (Options::built_in().memory("tb.nothing"), "the design has no array `tb.nothing`"),
        (Options::built_in().memory(top("clk")), "the design has no array `arrow_device_top.clk`"),
        (Options::built_in().error(Some("tb.error")), "the design has nothing named `tb.error`"),
        (Options::built_in().dma(dma), "the design has nothing named `tb.x`"),
    ] {
        let refused = arrow_device_vpi::open_with(&options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Driver);
        assert!(refused.to_string().contains(name), "{refused}");
    }
}
