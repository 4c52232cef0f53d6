//! The counts of what this library does with arrays.

use std::hint::black_box;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{Array, Queue, Schema};

use super::at_once;
use super::data::Data;
use super::from_arrow_rs::hand_over;
use super::ours::{self, Ours};
use super::party::{release, release_schema};
use crate::meter::{ALLOCATIONS, Counted, INSTRUCTIONS, Meter, WAITS};

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
        name: "import of a schema/int64/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_schema(meter, &Data::flat("int64")),
    },
    Counted {
        name: "import of a schema/nested/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_schema(meter, &Data::flat("nested")),
    },
    Counted {
        name: "import of a schema/batch/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_schema(meter, &Data::batch(1)),
    },
    Counted {
        name: "import of a schema/batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_schema(meter, &Data::batch(1000)),
    },
    Counted {
        name: "import of a schema/mixed batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_schema(meter, &Data::mixed(1000)),
    },
    Counted {
        name: "fields of an imported schema/batch/1000",
        promised: &[],
        run: |meter| fields_of_schema(meter, &Data::batch(1000)),
    },
    Counted {
        name: "import with schema/int64/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_with_schema(meter, &Data::flat("int64")),
    },
    Counted {
        name: "import with schema/batch/1000",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| import_with_schema(meter, &Data::batch(1000)),
    },
    Counted {
        name: "export from arrow-rs/batch/1000",
        promised: &[(ALLOCATIONS, 3), (INSTRUCTIONS, 200_000)],
        run: |meter| export_from_arrow_rs(meter, &Data::batch(1000)),
    },
    Counted {
        name: "import of device strings/batch/1000",
        promised: &[(ALLOCATIONS, 2), (DEVICE_READS, 0), (DEVICE_EVENTS, 0), (WAITS, 0)],
        run: |meter| on_device(meter, Looked::Imported),
    },
    Counted {
        name: "lengths of device strings/batch/1000",
        promised: &[(ALLOCATIONS, 24), (DEVICE_READS, 1), (DEVICE_EVENTS, 1), (WAITS, 1)],
        run: |meter| on_device(meter, Looked::AtLengths),
    },
];

/// Lists of copies that a device was given: reads, where nothing is written. The name of a count.
const DEVICE_READS: &str = "reads of the device";
/// Events that a queue was told to wait for, and events that were recorded. The name of a count.
const DEVICE_EVENTS: &str = "events of the device";

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

fn import_schema(meter: &mut Meter, data: &Data) {
    // SAFETY: it was just exported, by a library that keeps the rules.
    let once = |schema: &mut ArrowSchema| unsafe { Schema::import(schema) }.unwrap();
    (0..WARM).for_each(|_| drop(once(&mut exported_schema(data))));
    let mut schema = exported_schema(data);
    drop(black_box(meter.measure(|| once(&mut schema))));
}

/// What is made when the first field of an imported schema is asked for.
fn fields_of_schema(meter: &mut Meter, data: &Data) {
    // SAFETY: it was just exported, by a library that keeps the rules.
    let imported = || unsafe { Schema::import(&mut exported_schema(data)) }.unwrap();
    (0..WARM).for_each(|_| assert!(!imported().columns().is_empty()));
    let schema = imported();
    assert_eq!(meter.measure(|| schema.columns().len()) as u64, data.size);
}

fn import_with_schema(meter: &mut Meter, data: &Data) {
    let once = |schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        // SAFETY: what this library exports keeps to the interface.
        let schema = unsafe { Schema::import(schema) }.unwrap();
        // SAFETY: what this library exports keeps to the interface.
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

/// On a device whose own costs are none.
fn on_device(meter: &mut Meter, what: Looked) {
    let (device, tally) = at_once::open();
    let queue = device.open_queue().unwrap();
    let data = Data::texts(1000).array;
    let there = data.copy_to(&queue).unwrap();
    let schema = there.schema().unwrap();
    // SAFETY: what this library exports keeps to the interface.
    let once = |array: &mut ArrowDeviceArray| unsafe { Array::import(array, &schema) }.unwrap();
    (0..WARM).for_each(|_| drop(once(&mut exported(&there))));
    let mut array = exported(&there);
    let (host, options) = (Queue::host(), Options::new());
    let [reads, events, waits] = if what == Looked::Imported {
        tally.take();
        drop(meter.measure(|| once(&mut array)));
        tally.take()
    } else {
        let plan = |array: &Array| array.plan_copy(&host, &options).unwrap();
        (0..WARM).for_each(|_| drop(plan(&once(&mut exported(&there)))));
        let imported = once(&mut array);
        tally.take();
        let planned = meter.measure(|| plan(&imported));
        let counts = tally.take();
        assert!(planned.run().unwrap().equals(&data).unwrap());
        counts
    };
    meter.note(DEVICE_READS, reads);
    meter.note(DEVICE_EVENTS, events);
    meter.note(WAITS, waits);
}
