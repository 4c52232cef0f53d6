//! Arrays through the C structs: export, import, release.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, Batch, DataType};

use crate::case::{Case, Peer};
use crate::meter::{ALLOCATIONS, Counted, INSTRUCTIONS, Meter};

pub(super) fn cases() -> Vec<Case> {
    [1, 10, 100, 1000].into_iter().map(export).collect()
}

pub(super) const COUNTED: &[Counted] = &[
    Counted {
        name: "export/int64/1",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 200)],
        run: |meter| export_counted(&numbers(), meter),
    },
    Counted {
        name: "export/batch/1000",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 60_000)],
        run: |meter| export_counted(batch(1000).as_array(), meter),
    },
];

fn export(columns: u64) -> Case {
    let batch = batch(columns);
    let before = ArrowDeviceArray::empty;
    let timed = move |mut out| {
        batch.export(&mut out).unwrap();
        out
    };
    Case::step(("export", "batch", columns), Peer::ArrowDevice, before, timed, release)
}

fn export_counted(array: &Array, meter: &mut Meter) {
    for _ in 0..3 {
        let mut out = ArrowDeviceArray::empty();
        array.export(&mut out).unwrap();
        release(out);
    }
    let mut out = ArrowDeviceArray::empty();
    meter.measure(|| array.export(&mut out)).unwrap();
    release(out);
}

/// 1024 numbers, some of them null.
fn numbers() -> Array {
    let values = (0..1024).map(|row| (row % 7 != 0).then_some(row));
    Array::from_values::<i64>(DataType::Int64, values).unwrap()
}

fn batch(columns: u64) -> Batch {
    Batch::from_columns((0..columns).map(|index| (format!("c{index}"), numbers()))).unwrap()
}

fn release(mut array: ArrowDeviceArray) {
    if let Some(release) = array.array.release {
        // SAFETY: "the consumer must call the release callback"; it was not called before, as it is not null.
        unsafe { release(&raw mut array.array) };
    }
}
