//! How a device is opened: the pool that memory comes from, and how copies are submitted.

use arrow_device::ErrorKind;
use arrow_device_cuda::{Options, Pool};

use crate::{Machine, calls, numbers};

fn has(calls: &[String], part: &str) -> bool {
    calls.iter().any(|name| name.contains(part))
}

/// Memory comes from the pool that was chosen, or from none, and a pool of the library's own keeps
/// what it was told to keep.
pub fn the_pool_is_chosen(machine: &Machine) {
    let [own, current] = match machine.is_cuda() {
        true => ["cuMemAllocFromPoolAsync", "cuMemAllocAsync"],
        false => ["hipMallocFromPoolAsync", "hipMallocAsync"],
    };
    let found = |pool| {
        let options = Options::new().with_pool(pool);
        let calls = machine.calls_of_a_copy(&numbers(), options);
        [has(&calls, own), has(&calls, current)]
    };
    assert_eq!(found(Pool::Own { keep: 1 << 20 }), [true, false]);
    assert_eq!(found(Pool::Current), [false, true]);
    assert_eq!(found(Pool::None), [false, false]);
    for (keep, grows) in [(1 << 20, false), (0, true)] {
        let options = Options::new().with_pool(Pool::Own { keep });
        machine.calls_of_a_copy(&numbers(), options);
        let before = machine.sim.pool_growths();
        machine.calls_of_a_copy(&numbers(), options);
        assert_eq!(machine.sim.pool_growths() > before, grows, "{keep} bytes are kept");
    }
}

/// A list of copies is one call or one for each copy, with the same bytes, as it was chosen.
pub fn lists_of_copies_are_switched_off(machine: &Machine) {
    let array = calls::integers();
    for batched in [true, false] {
        let options = Options::new().with_batched_copies(batched);
        let calls = machine.calls_of_a_copy(&array, options);
        assert_eq!(has(&calls, "MemcpyBatch"), batched);
        let queue = machine.try_open_as(0, options).unwrap().open_queue().unwrap();
        calls::compare(&array, &array.copy_to(&queue).unwrap());
    }
}

/// Where nobody chooses, it is what is known of the device.
pub fn lists_of_copies_are_one_call(machine: &Machine, by_default: bool) {
    let array = calls::integers();
    let calls = machine.calls_of_a_copy(&array, Options::new());
    assert_eq!(has(&calls, "MemcpyBatch"), by_default);
    let calls = machine.calls_of_a_copy(&array, Options::new().with_batched_copies(true));
    assert!(has(&calls, "MemcpyBatch"));
}

/// What the program leaves open is read from the environment.
pub fn the_environment_chooses(machine: &Machine) {
    let variable = machine.name("ARROW_DEVICE_CUDA_OPTIONS", "ARROW_DEVICE_HIP_OPTIONS");
    // SAFETY: the test has a process of its own.
    let set = |text| unsafe { std::env::set_var(variable, text) };
    set("pool=none batched_copies=0");
    let calls = machine.calls_of_a_copy(&calls::integers(), Options::new());
    assert!(!has(&calls, "Batch") && !has(&calls, "PoolAsync"), "{calls:?}");
    let calls =
        machine.calls_of_a_copy(&calls::integers(), Options::new().with_batched_copies(true));
    assert!(has(&calls, "Batch"), "{calls:?}");
    set("pool=mine");
    let error = machine.try_open_as(0, Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(variable) && error.to_string().contains("mine"), "{error}");
}
