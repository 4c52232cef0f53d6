//! A driver that is old: none of the optional functions, no peers, no memory pools, no concurrent
//! managed access.

use arrow_device::ErrorKind;
use arrow_device::copy::{Options, Way};
use simulated_gpu_drivers::Vendor;

use crate::{Bench, Kind, Machine, assert_numbers, numbers};

const CUDA: &[&str] = &[
    "cuDeviceCanAccessPeer",
    "cuMemAllocAsync",
    "cuMemGetAddressRange_v2",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemcpyPeerAsync",
    "cuMemcpyBatchAsync",
    "cuMemcpyBatchAsync_v2",
    "cuCtxEnablePeerAccess",
    "cuDeviceGetDefaultMemPool",
    "cuMemPoolSetAccess",
];
const HIP: &[&str] = &[
    "hipDeviceCanAccessPeer",
    "hipMallocAsync",
    "hipStreamIsCapturing",
    "hipThreadExchangeStreamCaptureMode",
    "hipMemcpyPeerAsync",
    "hipMemcpyBatchAsync",
    "hipDeviceEnablePeerAccess",
    "hipDeviceGetDefaultMemPool",
    "hipMemPoolSetAccess",
    "hipGetLastError",
];

pub fn bench_cuda() -> Bench {
    Bench::with(Vendor::Cuda, |builder| {
        builder.peers(false).pools(false).concurrent_managed(false).without(CUDA)
    })
}

pub fn bench_rocm() -> Bench {
    Bench::with(Vendor::Hip, |builder| builder.peers(false).pools(false).without(HIP))
}

/// Data of the other device goes by way of the host, and naming a queue for it is an error.
pub fn peers_are_not_reachable(machine: &Machine) {
    let [one, two] = [0, 1].map(|ordinal| machine.open(ordinal, Kind::Device));
    let [here, there] = [&one, &two].map(|device| device.open_queue().unwrap());
    let array = numbers().copy_to(&there).unwrap();
    let error = array.on(&here).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
    let plan = array.plan_copy(&here, &Options::new()).unwrap();
    assert_eq!(plan.hops()[0].way, Way::ToHost, "{plan}");
    assert_numbers(&plan.run().unwrap());
}

/// Where the host may not touch managed memory while the device works, it is copied.
pub fn managed_memory_is_copied(machine: &Machine) {
    let queue = machine.open(0, Kind::Managed).open_queue().unwrap();
    let array = numbers().copy_to(&queue).unwrap();
    assert_eq!(array.host().map(drop).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_numbers(&array);
}

/// More than the device has free is refused before the driver is asked for it.
pub fn managed_memory_is_bounded(machine: &Machine) {
    let device = machine.open(0, Kind::Managed);
    let before = machine.sim.count("cuMemAllocManaged");
    let error = device.allocate(300 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("free"), "{error}");
    assert_eq!(machine.sim.count("cuMemAllocManaged"), before);
    drop(device.allocate(1 << 20).unwrap());
    assert_eq!(machine.sim.count("cuMemAllocManaged"), before + 1);
}
