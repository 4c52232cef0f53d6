//! Places inside an allocation, on a device whose memory is known by where its allocations begin.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Raw, Route};
use arrow_device::{Array, Buffer, DataType, Memory};
use arrow_device_sim::{Builder, Mistake, Sim};

use crate::mistakes::{Twins, with_memory};
use crate::support::{Bench, at, host, region};

fn separate() -> Builder {
    Sim::builder().separate(true)
}

/// The address so many bytes behind a place.
fn inside(memory: Raw<Memory>, bytes: usize) -> Raw<Memory> {
    Raw::from_ptr(memory.as_ptr().wrapping_byte_add(bytes))
}

/// Exports an array of somebody else's memory that begins so many bytes behind where the allocation
/// does.
fn export_from(bench: &Bench<'_>, bytes: usize) {
    let mut memory = bench.device.allocate(128).unwrap();
    memory.write(&bench.one, &[3; 128]).unwrap();
    let base = inside(memory.spot(&bench.one).unwrap().base, bytes).as_ptr();
    let buffer = unsafe { Buffer::foreign(bench.device.id(), base, 64, memory) };
    let array = Array::builder(DataType::Int64).len(8).buffers([None, Some(buffer)]);
    let array = array.finish_ready().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    drop(unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap());
}

pub(crate) const TWINS: &[Twins] = &[
    Twins {
        name: "an address inside an allocation, named to a kernel",
        mistake: Mistake::UnnamedPlace,
        build: separate,
        wrong: |bench| {
            with_memory(bench, |memory| bench.consume(&bench.one, inside(memory, 32), 32));
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let kernel = bench.sim.kernel("consume").reads(at(memory, 32), 32);
                kernel.launch(&bench.one, |_| {}).unwrap();
            });
        },
    },
    Twins {
        name: "an address inside an allocation, named to a copy",
        mistake: Mistake::UnnamedPlace,
        build: separate,
        wrong: |bench| {
            with_memory(bench, |memory| {
                let region = region(host(&[1; 8]), at(inside(memory, 8), 0), 8);
                bench.copy(&bench.one, Route::FromHost, &[region]).unwrap();
                bench.idle();
            });
        },
        right: |bench| {
            with_memory(bench, |memory| {
                let bytes = [1; 8];
                let region = region(host(&bytes), at(memory, 8), 8);
                bench.copy(&bench.one, Route::FromHost, &[region]).unwrap();
                bench.idle();
            });
        },
    },
    Twins {
        name: "an array that shows an address inside an allocation",
        mistake: Mistake::UnnamedPlace,
        build: separate,
        wrong: |bench| export_from(bench, 64),
        right: |bench| export_from(bench, 0),
    },
];
