//! What a copy asks for, of the allocator and of drivers.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use arrow_device::copy::Options;
use arrow_device::{Batch, Device, Queue, Recycler, Result};
use arrow_device_testkit::tally::watch;
use simulated_gpu_drivers::{Simulated, Vendor};

use super::{host, integers, settle, texts};
use crate::meter::{ALLOCATIONS, Counted, DRIVER_CALLS, MOVED, Meter, WAITS};

/// Work that a driver was given: lists of copies, mappings and their ends, events.
const SUBMISSIONS: &str = "submissions";
/// Handles for parts of one allocation.
const HANDLES: &str = "handles";
/// The same for a copy into memory that was not divided so before.
const FIRST_HANDLES: &str = "handles, first copy";
/// Calls of a driver for a copy that has not got what later ones find: memory that data passes
/// through, events.
const FIRST_CALLS: &str = "driver calls, first copy";

pub(in super::super) const COUNTED: &[Counted] = &[
    Counted {
        name: "plan of a copy/int64 batch/1000",
        promised: &[(ALLOCATIONS, 8)],
        run: |meter| plan(&integers(1000, 16), meter),
    },
    Counted {
        name: "plan of a copy/text batch/1000",
        promised: &[(ALLOCATIONS, 12)],
        run: |meter| plan(&texts(1000, 16), meter),
    },
    Counted {
        name: "copy host to host/int64 batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 20)],
        run: |meter| host_to_host(&integers(1000, 16), meter),
    },
    Counted {
        name: "copy host to host/text batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 24)],
        run: |meter| host_to_host(&texts(1000, 16), meter),
    },
    Counted {
        name: "copy host to OpenCL/int64 batch of 512 rows/1000",
        promised: &[(SUBMISSIONS, 5), (HANDLES, 0)],
        run: |meter| to_device(arrow_device_opencl::open(0), &integers(1000, 512), meter),
    },
    Counted {
        name: "copy host to OpenCL/text batch of 512 rows/1000",
        promised: &[(SUBMISSIONS, 5), (HANDLES, 0)],
        run: |meter| to_device(arrow_device_opencl::open(0), &texts(1000, 512), meter),
    },
    Counted {
        name: "copy host to Vulkan/int64 batch of 512 rows/1000",
        promised: &[(SUBMISSIONS, 5), (HANDLES, 0)],
        run: |meter| to_device(arrow_device_vulkan::open(0), &integers(1000, 512), meter),
    },
    Counted {
        name: "copy host to Vulkan/text batch of 512 rows/1000",
        promised: &[(SUBMISSIONS, 5), (HANDLES, 0)],
        run: |meter| to_device(arrow_device_vulkan::open(0), &texts(1000, 512), meter),
    },
    Counted {
        name: "copy host to CUDA/int64 batch of 1024 rows/10",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &integers(10, 1024), meter),
    },
    Counted {
        name: "copy host to CUDA/int64 batch of 1024 rows/100",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &integers(100, 1024), meter),
    },
    Counted {
        name: "copy host to CUDA/int64 batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &integers(1000, 1024), meter),
    },
    Counted {
        name: "copy host to CUDA/text batch of 1024 rows/10",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &texts(10, 1024), meter),
    },
    Counted {
        name: "copy host to CUDA/text batch of 1024 rows/100",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &texts(100, 1024), meter),
    },
    Counted {
        name: "copy host to CUDA/text batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Cuda, &texts(1000, 1024), meter),
    },
    Counted {
        name: "copy host to ROCm/int64 batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Hip, &integers(1000, 1024), meter),
    },
    Counted {
        name: "copy host to ROCm/text batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 12)],
        run: |meter| simulated(Vendor::Hip, &texts(1000, 1024), meter),
    },
];

fn plan(batch: &Batch, meter: &mut Meter) {
    let (queue, options) = (Queue::host(), Options::new().always(true));
    let plan = || batch.as_array().plan_copy(&queue, &options).unwrap();
    (0..3).for_each(|_| drop(plan()));
    let planned = meter.measure(plan);
    assert!(planned.bytes() > 0);
}

fn host_to_host(batch: &Batch, meter: &mut Meter) {
    let (queue, options) = (Queue::host(), host::options());
    let copy = || batch.copy_with(&queue, &options).unwrap();
    (0..3).for_each(|_| drop(copy()));
    let copied = meter.measure(copy);
    assert!(copied.as_array().equals(batch.as_array()).unwrap());
    meter.note(MOVED, batch.as_array().plan_copy(&queue, &options).unwrap().bytes());
}

/// Leaves a workload out, except where continuous integration has installed what it needs.
fn absent(why: &arrow_device::Error) {
    let is_required = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_required, "the device is required: {why}");
    eprintln!("left out: {why}");
}

fn to_device(device: Result<Device>, batch: &Batch, meter: &mut Meter) {
    count_on_device(device, batch, meter, |queue| batch.copy_to(queue).unwrap());
}

/// Counts what a driver is asked for until this batch is on the device, with memory that is
/// recycled. Where there is no device, nothing is noted.
pub(in super::super) fn count_on_device(
    device: Result<Device>,
    batch: &Batch,
    meter: &mut Meter,
    bring: impl Fn(&Queue) -> Batch,
) {
    let device = match device {
        Ok(device) => device,
        Err(why) => return absent(&why),
    };
    let (watched, tally) = watch(&device);
    let queue = watched.with_allocator(Recycler::new(256 << 20)).open_queue().unwrap();
    for turn in 0..3 {
        drop(bring(&queue));
        settle();
        if turn == 0 {
            meter.note(FIRST_HANDLES, tally.handles.load(Ordering::Relaxed));
        }
    }
    tally.clear();
    let copied = bring(&queue);
    let counts = [
        (SUBMISSIONS, &tally.submissions),
        (WAITS, &tally.waits),
        (MOVED, &tally.moved),
        (HANDLES, &tally.handles),
    ];
    for (name, count) in counts {
        meter.note(name, count.load(Ordering::Relaxed));
    }
    let back = copied.as_array().to_host().unwrap();
    assert!(back.equals(batch.as_array()).unwrap());
}

/// Counts all calls of a simulated driver.
fn simulated(vendor: Vendor, batch: &Batch, meter: &mut Meter) {
    count_on_simulated(vendor, batch, meter, |queue| batch.copy_to(queue).unwrap());
}

/// Counts all calls of a simulated driver until this batch is on its device.
pub(in super::super) fn count_on_simulated(
    vendor: Vendor,
    batch: &Batch,
    meter: &mut Meter,
    bring: impl Fn(&Queue) -> Batch,
) {
    let (driver, device) = machine(vendor);
    let queue = device.open_queue().unwrap();
    let calls = [(); 2].map(|()| {
        settle();
        driver.clear_log();
        let copied = bring(&queue);
        let calls = driver.calls();
        let back = copied.as_array().to_host().unwrap();
        assert!(back.equals(batch.as_array()).unwrap());
        calls
    });
    meter.note(FIRST_CALLS, calls[0]);
    meter.note(DRIVER_CALLS, calls[1]);
}

/// The simulated driver of a vendor, of which a process has one, and its device.
fn machine(vendor: Vendor) -> (&'static Simulated, Device) {
    static CUDA: OnceLock<Simulated> = OnceLock::new();
    static HIP: OnceLock<Simulated> = OnceLock::new();
    let (machine, variable) = match vendor {
        Vendor::Cuda => (&CUDA, "ARROW_DEVICE_CUDA_LIBRARY"),
        _ => (&HIP, "ARROW_DEVICE_HIP_LIBRARY"),
    };
    let simulated = machine.get_or_init(|| {
        let simulated = Simulated::builder(vendor).memory(256 << 20).load();
        // SAFETY: nobody else reads or writes the environment meanwhile: a counted workload has its
        // process alone.
        unsafe { std::env::set_var(variable, simulated.path()) };
        simulated
    });
    let device = match vendor {
        Vendor::Cuda => arrow_device_cuda::open(0),
        _ => arrow_device_rocm::open(0),
    };
    (simulated, device.unwrap())
}
