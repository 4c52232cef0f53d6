//! The counts of what this library does with arrays.

use std::hint::black_box;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{Array, Queue, Schema};
use arrow_device_sim::Sim;

use super::data::Data;
use super::from_arrow_rs::hand_over;
use super::ours::{self, Ours};
use super::party::{release, release_schema};
use crate::meter::{ALLOCATIONS, Counted, INSTRUCTIONS, Meter};

/// Runs before the one that is counted, so that what is recycled is there.
const WARM: usize = 3;

pub(in crate::workloads) const COUNTED: &[Counted] = &[
    Counted {
        name: "export/int64/1",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 200)],
        run: |meter| export(meter, Ours::Built, &Data::flat("int64")),
    },
    Counted {
        name: "export/utf8/1",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 200)],
        run: |meter| export(meter, Ours::Built, &Data::flat("utf8")),
    },
    Counted {
        name: "export/nested/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| export(meter, Ours::Built, &Data::flat("nested")),
    },
    Counted {
        name: "export/imported batch/1000",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 60_000)],
        run: |meter| export(meter, Ours::Imported, &Data::batch(1000)),
    },
    Counted {
        name: "export/built batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| export(meter, Ours::Built, &Data::batch(1000)),
    },
    Counted {
        name: "export/converted batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| export(meter, Ours::ArrowRs, &Data::batch(1000)),
    },
    Counted {
        name: "first export/imported batch/1000",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| first_export(meter, Ours::Imported, &Data::batch(1000)),
    },
    Counted {
        name: "first export/built batch/1000",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| first_export(meter, Ours::Built, &Data::batch(1000)),
    },
    Counted {
        name: "export with schema/imported batch/1000",
        promised: &[(ALLOCATIONS, 2)],
        run: |meter| export_with_schema(meter, &Data::batch(1000)),
    },
    Counted {
        name: "release/imported batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| release_of(meter, Ours::Imported, &Data::batch(1000)),
    },
    Counted {
        name: "release/built batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| release_of(meter, Ours::Built, &Data::batch(1000)),
    },
    Counted {
        name: "import/int64/1",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| import(meter, &Data::flat("int64")),
    },
    Counted {
        name: "import/nested/1",
        promised: &[(ALLOCATIONS, 2)],
        run: |meter| import(meter, &Data::flat("nested")),
    },
    Counted {
        name: "import/batch/1000",
        promised: &[(ALLOCATIONS, 2)],
        run: |meter| import(meter, &Data::batch(1000)),
    },
    Counted {
        name: "import/mixed batch/1000",
        promised: &[(ALLOCATIONS, 2)],
        run: |meter| import(meter, &Data::mixed(1000)),
    },
    Counted {
        name: "import with schema/batch/1000",
        promised: &[],
        run: |meter| import_with_schema(meter, &Data::batch(1000)),
    },
    Counted {
        name: "export from arrow-rs/batch/1000",
        promised: &[(ALLOCATIONS, 3), (INSTRUCTIONS, 200_000)],
        run: |meter| export_from_arrow_rs(meter, &Data::batch(1000)),
    },
    Counted {
        name: "import of device strings/batch/1000",
        promised: &[(ALLOCATIONS, 2), (DEVICE_WORK, 0)],
        run: |meter| on_device(meter, Looked::Imported),
    },
    Counted {
        name: "lengths of device strings/batch/1000",
        promised: &[],
        run: |meter| on_device(meter, Looked::AtLengths),
    },
];

/// Pieces of work that the software device ran: lists of copies, and points at which an event is recorded. The name of a count.
const DEVICE_WORK: &str = "work of the device";

fn exported(array: &Array) -> ArrowDeviceArray {
    let mut out = ArrowDeviceArray::empty();
    array.export(&mut out).unwrap();
    out
}

fn exported_schema(data: &Data) -> ArrowSchema {
    let mut out = ArrowSchema::empty();
    data.export_schema(&mut out);
    out
}

fn export(meter: &mut Meter, form: Ours, data: &Data) {
    let array = form.array(data);
    (0..WARM).for_each(|_| release(&mut exported(&array)));
    first(meter, &array);
}

/// With nothing to recycle: what the form needed itself is still there.
fn first_export(meter: &mut Meter, form: Ours, data: &Data) {
    let array = form.array(data);
    let others: Vec<ArrowDeviceArray> = (0..WARM).map(|_| exported(&array)).collect();
    first(meter, &array);
    others.into_iter().for_each(|mut other| release(&mut other));
}

fn first(meter: &mut Meter, array: &Array) {
    let mut out = ArrowDeviceArray::empty();
    meter.measure(|| array.export(&mut out)).unwrap();
    release(&mut out);
}

fn export_with_schema(meter: &mut Meter, data: &Data) {
    let array = Ours::Imported.array(data);
    let schema = array.schema().unwrap();
    let once = |out: &mut ArrowDeviceArray, out_schema: &mut ArrowSchema| {
        array.export(out).unwrap();
        schema.export(out_schema).unwrap();
    };
    let (mut out, mut out_schema) = (ArrowDeviceArray::empty(), ArrowSchema::empty());
    for _ in 0..WARM {
        once(&mut out, &mut out_schema);
        release(&mut out);
        release_schema(&mut out_schema);
    }
    meter.measure(|| once(&mut out, &mut out_schema));
    release(&mut out);
    release_schema(&mut out_schema);
}

fn release_of(meter: &mut Meter, form: Ours, data: &Data) {
    let array = form.array(data);
    (0..WARM).for_each(|_| release(&mut exported(&array)));
    let mut out = exported(&array);
    meter.measure(|| release(&mut out));
}

fn import(meter: &mut Meter, data: &Data) {
    let schema = data.array.schema().unwrap();
    // SAFETY: what this library exports keeps to the interface.
    let once = |array: &mut ArrowDeviceArray| unsafe { Array::import(array, &schema) }.unwrap();
    (0..WARM).for_each(|_| drop(once(&mut exported(&data.array))));
    let mut array = exported(&data.array);
    drop(meter.measure(|| once(&mut array)));
}

fn import_with_schema(meter: &mut Meter, data: &Data) {
    let once = |schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        // SAFETY: what this library exports keeps to the interface.
        let schema = unsafe { Schema::import(schema) }.unwrap();
        // SAFETY: as above.
        unsafe { Array::import(array, &schema) }.unwrap()
    };
    for _ in 0..WARM {
        drop(once(&mut exported_schema(data), &mut exported(&data.array)));
    }
    let (mut schema, mut array) = (exported_schema(data), exported(&data.array));
    drop(black_box(meter.measure(|| once(&mut schema, &mut array))));
}

fn export_from_arrow_rs(meter: &mut Meter, data: &Data) {
    let (schema, batch) = (data.array.schema().unwrap(), ours::arrow_rs(data));
    let mut out = ArrowDeviceArray::empty();
    for _ in 0..WARM {
        hand_over(&schema, batch.clone(), &mut out);
        release(&mut out);
    }
    let given = batch.clone();
    meter.measure(|| hand_over(&schema, given, &mut out));
    release(&mut out);
}

/// What is done with strings on a device.
#[derive(Clone, Copy, PartialEq)]
enum Looked {
    Imported,
    /// All their lengths are learnt, as the plan of a copy does it.
    AtLengths,
}

/// On the software device, which logs each piece of work that it runs.
fn on_device(meter: &mut Meter, what: Looked) {
    let sim = Sim::builder().log(true).build();
    let queue = sim.device().open_queue().unwrap();
    let there = Data::texts(1000).array.copy_to(&queue).unwrap();
    there.wait().unwrap();
    let schema = there.schema().unwrap();
    // SAFETY: what this library exports keeps to the interface.
    let once = |array: &mut ArrowDeviceArray| unsafe { Array::import(array, &schema) }.unwrap();
    (0..WARM).for_each(|_| drop(once(&mut exported(&there))));
    let mut array = exported(&there);
    let before = sim.log().len();
    if what == Looked::Imported {
        drop(meter.measure(|| once(&mut array)));
    } else {
        let imported = once(&mut array);
        let (queue, options) = (Queue::host(), Options::new());
        drop(meter.measure(|| imported.plan_copy(&queue, &options)).unwrap());
    }
    meter.note(DEVICE_WORK, (sim.log().len() - before) as u64);
    drop((there, queue));
    arrow_device::drain(std::time::Duration::from_secs(60)).unwrap();
    assert!(sim.finish().is_empty(), "the device has nothing to report");
}
