//! Copies and tensors on Metal. That arrays and streams have their values after a copy to Metal
//! from any other device, and back, is tested in `device-pairs`.

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips;
use metal_stand_in::Gate;

use crate::support::Bench;

#[test]
fn threads_share_a_device() {
    let Some(bench) = Bench::new() else { return };
    trips::threads_share_a_device(&bench, 25);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    let Some(bench) = Bench::new() else { return };
    trips::polled_copies_need_nobody_who_waits(&bench.open_queue().unwrap(), 60);
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    for threads in [2, 8] {
        trips::threads_read_one_array(&queue, threads, 40);
    }
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    let Some(bench) = Bench::new() else { return };
    conversions::run(&bench.open_queue().unwrap());
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    let Some(bench) = Bench::new() else { return };
    trips::a_part_of_a_large_column_moves_little(&bench.open_queue().unwrap());
}

#[test]
fn streams_go_through_the_c_struct() {
    let Some(bench) = Bench::new() else { return };
    trips::streams_go_through_the_c_struct(&bench, 20);
}

fn host(bytes: &mut [u8]) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 }
}

/// The bytes of a copy to the host lie in a buffer until somebody asks. Each of the ways to ask
/// has to bring them.
// Requirement: DRV-17, DRV-19, DRV-23
#[test]
fn whoever_learns_that_a_copy_to_the_host_is_done_finds_the_bytes() {
    let Some(bench) = Bench::new() else { return };
    let (queue, other) = (bench.open_queue().unwrap(), bench.open_queue().unwrap());
    let bytes: Vec<u8> = (0..251).collect();
    let mut memory = queue.allocate(251).unwrap();
    memory.write(&queue, &bytes).unwrap();
    let from = memory.spot(&queue).unwrap();
    for (what, ask) in [
        ("an event", &(|| queue.record()?.synchronize()) as &dyn Fn() -> arrow_device::Result<()>),
        ("a queue", &|| queue.synchronize()),
        ("a question", &|| {
            let event = queue.record()?;
            while !event.is_complete()? {}
            Ok(())
        }),
        ("whether it is idle", &|| {
            while !queue.is_idle()? {}
            Ok(())
        }),
        ("a queue behind an event", &|| {
            other.wait(&queue.record()?)?;
            other.synchronize()
        }),
    ] {
        let mut read = vec![0; 251];
        let mut gate = Gate::new();
        unsafe { gate.before(queue.raw().as_ptr()) };
        let region = Region { from, to: host(&mut read), len: 251 };
        unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
        assert!(read.iter().all(|byte| *byte == 0), "{what}");
        gate.open();
        ask().unwrap();
        assert_eq!(read, bytes, "{what}");
    }
}

/// Regions of odd lengths, and more bytes than pass through one buffer.
#[test]
fn long_and_odd_copies_arrive() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let len = (64 << 20) + 4099;
    let mut bytes: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
    let mut memory = queue.allocate(len as u64 + 8).unwrap();
    let spot = memory.spot(&queue).unwrap();
    let at = |offset: u64| Spot { offset, ..spot };
    let regions = [
        Region { from: host(&mut bytes), to: at(8), len: len as u64 },
        Region { from: host(&mut bytes[100..]), to: at(0), len: 7 },
    ];
    unsafe { queue.copy(Route::FromHost, &regions) }.unwrap();
    let (mut read, mut few) = (vec![0; len], [0; 8]);
    let regions = [
        Region { from: at(8), to: host(&mut read), len: len as u64 },
        Region { from: at(0), to: host(&mut few), len: 7 },
    ];
    unsafe { queue.copy(Route::ToHost, &regions) }.unwrap();
    queue.synchronize().unwrap();
    assert!(read == bytes);
    assert_eq!((&few[..7], few[7]), (&bytes[100..107], 0));
}
