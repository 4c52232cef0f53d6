//! By this library.

use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
use arrow_device::{Array, Batch, Buffer, DataType};

use super::{COUNT, DEEP, FLAT, Form, array, handed_over, named, tensor};
use crate::case::{Case, Peer};
use crate::meter::{ALLOCATIONS, Counted, INSTRUCTIONS, Meter};

pub(super) fn cases() -> Vec<Case> {
    let there_and_back = |shape| {
        let tensor = tensor(shape);
        Case::whole(named("tensor round trip", shape), Peer::ArrowDevice, move || {
            drop(import(handed_over(&tensor)));
        })
    };
    vec![
        exported(FLAT),
        exported(DEEP),
        imported(FLAT),
        imported(DEEP),
        there_and_back(FLAT),
        there_and_back(DEEP),
        array_to_tensor(),
        tensor_to_array(),
        array_round_trip(),
        batch_to_tensor(10),
    ]
}

fn exported(shape: &'static str) -> Case {
    let tensor = tensor(shape);
    let export = move |()| handed_over(&tensor);
    Case::step(named("tensor export", shape), Peer::ArrowDevice, || (), export, drop)
}

fn imported(shape: &'static str) -> Case {
    let tensor = tensor(shape);
    let before = move || handed_over(&tensor);
    Case::step(named("tensor import", shape), Peer::ArrowDevice, before, import, drop)
}

fn array_to_tensor() -> Case {
    let array = array();
    let convert = move |()| as_tensor(&array);
    Case::step(named("array to tensor", FLAT), Peer::ArrowDevice, || (), convert, drop)
}

fn tensor_to_array() -> Case {
    let tensor = tensor(FLAT);
    let convert = move |()| as_array(&tensor);
    Case::step(named("tensor to array", FLAT), Peer::ArrowDevice, || (), convert, drop)
}

/// From an array to C and from C to an array.
fn array_round_trip() -> Case {
    let array = array();
    Case::whole(named("array round trip", FLAT), Peer::ArrowDevice, move || {
        let managed = handed_over(&as_tensor(&array));
        drop(as_array(&import(managed)));
    })
}

/// Columns that lie behind each other, which are one tensor without a copy.
fn batch_to_tensor(columns: u64) -> Case {
    let batch = neighbours(columns);
    let convert = move |()| batch.to_tensor(&Conversion::new()).unwrap();
    Case::step(("batch to tensor", "int64", columns), Peer::ArrowDevice, || (), convert, drop)
}

pub(crate) const COUNTED: &[Counted] = &[
    Counted {
        name: "tensor export/one dimension/1",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| export_counted(FLAT, meter),
    },
    Counted {
        name: "tensor export/four dimensions/1",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| export_counted(DEEP, meter),
    },
    Counted {
        name: "tensor import/one dimension/1",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| import_counted(FLAT, meter),
    },
    Counted {
        name: "tensor import/four dimensions/1",
        promised: &[(ALLOCATIONS, 1)],
        run: |meter| import_counted(DEEP, meter),
    },
    Counted {
        name: "tensor round trip/one dimension/1",
        promised: &[(ALLOCATIONS, 2)],
        run: |meter| {
            let tensor = tensor(FLAT);
            counted(meter, || (), |()| drop(import(handed_over(&tensor))));
        },
    },
    Counted {
        name: "array to tensor/int64/1",
        promised: &[(ALLOCATIONS, 0), (INSTRUCTIONS, 1000)],
        run: |meter| {
            let array = array();
            counted(meter, || (), |()| as_tensor(&array));
        },
    },
    Counted {
        name: "tensor to array/int64/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| {
            let tensor = tensor(FLAT);
            counted(meter, || (), |()| as_array(&tensor));
        },
    },
    Counted {
        name: "imported tensor to array/int64/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| {
            let tensor = tensor(FLAT);
            counted(meter, || import(handed_over(&tensor)), |imported| as_array(&imported));
        },
    },
    Counted {
        name: "array round trip/int64/1",
        promised: &[(ALLOCATIONS, 0)],
        run: |meter| {
            let array = array();
            let round = |()| as_array(&import(handed_over(&as_tensor(&array))));
            counted(meter, || (), round);
        },
    },
    Counted {
        name: "batch to tensor/int64/10",
        promised: &[],
        run: |meter| {
            let batch = neighbours(10);
            let convert = |()| batch.to_tensor(&Conversion::new()).unwrap();
            counted(meter, || (), convert);
        },
    },
];

fn export_counted(shape: &str, meter: &mut Meter) {
    let tensor = tensor(shape);
    counted(meter, || tensor.clone(), handed_over_whole);
}

fn import_counted(shape: &str, meter: &mut Meter) {
    let tensor = tensor(shape);
    counted(meter, || handed_over(&tensor), import);
}

/// Does it a few times, and measures once more.
fn counted<A, B>(meter: &mut Meter, before: impl Fn() -> A, work: impl Fn(A) -> B) {
    (0..3).for_each(|_| drop(work(before())));
    let made = before();
    drop(meter.measure(|| work(made)));
}

fn handed_over_whole(tensor: Tensor) -> Managed<Form> {
    tensor.export(Order::Host, CopyPolicy::Never).unwrap()
}

fn import(managed: Managed<Form>) -> Tensor {
    // SAFETY: a tensor that was just handed over, of memory that nobody writes to.
    unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap()
}

fn as_tensor(array: &Array) -> Tensor {
    array.to_tensor(&Conversion::new()).unwrap()
}

fn as_array(tensor: &Tensor) -> Array {
    tensor.to_array(&Conversion::new()).unwrap()
}

fn neighbours(columns: u64) -> Batch {
    let rows = COUNT as u64 / columns;
    let all = Buffer::from((0..COUNT).collect::<Vec<i64>>());
    let column = |index: u64| {
        let values = all.slice(index * rows * 8, rows * 8).unwrap();
        let builder = Array::builder(DataType::Int64).len(rows as usize);
        (format!("c{index}"), builder.buffers([None, Some(values)]).finish_ready().unwrap())
    };
    Batch::from_columns((0..columns).map(column)).unwrap()
}
