//! What is shared and what is copied: the tables of `docs/dlpack.md`, from what the library does.

use std::fmt::Write;

use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Nulls, Tensor};
use arrow_device::{
    Array, Batch, Buffer, DataType, ErrorKind, Field, IndexType, IntervalUnit, Queue, Result,
    TimeUnit,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dlpack.md");
const BEGIN: &str = "<!-- tables -->\n";
const END: &str = "<!-- end of tables -->\n";

// Requirement: DLP-5
#[test]
fn the_page_says_what_is_shared_and_what_is_copied() {
    let tables = [of_arrays(), of_tensors(), of_batches()].join("\n");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("a place for the tables");
    let (written, tail) = rest.split_once(END).expect("an end of the tables");
    if written == tables {
        return;
    }
    if std::env::var("ARROW_DEVICE_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(PAGE, [head, BEGIN, &tables, END, tail].concat()).unwrap();
        return;
    }
    panic!(
        "docs/dlpack.md is not what the library does; ARROW_DEVICE_BLESS=1 writes it again:\n{tables}"
    );
}

/// How a conversion went, by what had to be allowed.
fn way<T>(
    convert: impl Fn(&Conversion) -> Result<T>,
    is_shared: impl Fn(&T) -> bool,
) -> (String, Option<T>) {
    let as_integers = |it: Conversion| it.as_integers(true);
    let plain = |it: Conversion| it;
    let filled = |it: Conversion| it.nulls(Nulls::NaN);
    type Change<'a> = &'a dyn Fn(Conversion) -> Conversion;
    let ways: [(&str, CopyPolicy, Change<'_>); 5] = [
        ("", CopyPolicy::Never, &plain),
        (", if `as_integers` is said", CopyPolicy::Never, &as_integers),
        ("", CopyPolicy::IfNeeded, &plain),
        (", if `as_integers` is said", CopyPolicy::IfNeeded, &as_integers),
        (", if something stands for nulls", CopyPolicy::IfNeeded, &filled),
    ];
    for (condition, copying, change) in ways {
        match convert(&change(Conversion::new()).copying(copying)) {
            Ok(result) => {
                let shared = is_shared(&result);
                assert!(shared || copying != CopyPolicy::Never, "copied without being allowed to");
                let how = if shared { "shared" } else { "copied" };
                return (format!("{how}{condition}"), Some(result));
            }
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Unsupported | ErrorKind::InvalidData | ErrorKind::InvalidArgument
                ),
                "{error}"
            ),
        }
    }
    ("refused".into(), None)
}

fn first_of(tensor: &Tensor) -> usize {
    tensor.on(&Queue::host()).unwrap().location().address().addr()
}

/// The address of the first element of an array, or of what is in its lists.
fn first_in(array: &Array) -> usize {
    if let DataType::FixedSizeList(_, size) = array.data_type() {
        let first = array.offset() * *size as usize;
        let child = array.child(0).unwrap();
        let length = child.len() - first;
        return first_in(&child.slice(first, length).unwrap());
    }
    let kind = array.buffer_kind(1).and_then(|kind| kind.byte_len(1)).unwrap_or(0) as usize;
    let base = array.on(&Queue::host()).unwrap().buffer(1).location().address().addr();
    base + array.offset() * kind
}

fn of_arrays() -> String {
    let mut table = String::from("| array | tensor | |\n|---|---|---|\n");
    for (name, array) in arrays() {
        let (how, tensor) = way(|it| array.to_tensor(it), |it| first_of(it) == first_in(&array));
        let shape = tensor.map_or("none".into(), |it| format!("`{}` {:?}", it.dtype(), it.shape()));
        writeln!(table, "| {name} | {shape} | {how} |").unwrap();
    }
    table
}

/// Four elements of a type over bytes.
fn of(field: impl Into<Field>, width: usize) -> Array {
    let bytes: Buffer = vec![1_u64; (4 * width).div_ceil(8)].into();
    Array::builder(field.into()).len(4).buffers([None, Some(bytes)]).finish_ready().unwrap()
}

fn lists(item: Array, size: i32, metadata: Option<&str>) -> Array {
    let field = Field::from(DataType::fixed_size_list(item.field().clone(), size));
    let field = match metadata {
        Some(metadata) => field.with_extension("arrow.fixed_shape_tensor", metadata).unwrap(),
        None => field,
    };
    let len = item.len() / size as usize;
    Array::builder(field).len(len).buffers([None]).children([item]).finish_ready().unwrap()
}

fn extension(name: &str, data_type: DataType) -> Field {
    Field::from(data_type).with_extension(name, "").unwrap()
}

fn arrays() -> Vec<(String, Array)> {
    use DataType::*;
    let mut all: Vec<(String, Array)> = Vec::new();
    let mut add = |name: &str, array: Array| all.push((name.into(), array));
    let widths = [
        (Int8, 1),
        (Int16, 2),
        (Int32, 4),
        (Int64, 8),
        (UInt8, 1),
        (UInt16, 2),
        (UInt32, 4),
        (UInt64, 8),
        (Float16, 2),
        (Float32, 4),
        (Float64, 8),
    ];
    for (data_type, width) in widths {
        add(&format!("`{data_type}`"), of(data_type, width));
    }
    let numbers = || of(Int32, 4);
    let floats = |values: [Option<f32>; 4]| Array::from_values(Float32, values).unwrap();
    add("a slice of it", numbers().slice(1, 2).unwrap());
    add("nothing of it", numbers().slice(1, 0).unwrap());
    let gap = floats([Some(1.0), None, Some(3.0), Some(4.0)]);
    add("`float32` with nulls", gap.clone());
    add("a slice of it without nulls", gap.slice(2, 2).unwrap());
    add("`bool`", Array::from_bools([Some(true), None, Some(false)]).unwrap().slice(2, 1).unwrap());
    let bool8 = |bytes: [i8; 4]| {
        let field = extension("arrow.bool8", Int8);
        Array::builder(field)
            .len(4)
            .buffers([None, Some(bytes.to_vec().into())])
            .finish_ready()
            .unwrap()
    };
    add("`arrow.bool8` of 0 and 1", bool8([0, 1, 1, 0]));
    add("`arrow.bool8` of other bytes", bool8([0, 1, -1, 7]));
    add("`arrow_device.bfloat16`", of(extension("arrow_device.bfloat16", FixedSizeBinary(2)), 2));
    let pairs = |part: DataType, width| {
        let parts = of(part.clone(), width).slice(2, 2).unwrap();
        let field =
            extension("arrow_device.complex", DataType::fixed_size_list(Field::from(part), 2));
        Array::builder(field).len(1).buffers([None]).children([parts]).finish_ready().unwrap()
    };
    add("`arrow_device.complex` of `float32`", pairs(Float32, 4));
    add("`arrow_device.complex` of `float64`", pairs(Float64, 8));
    add("lists of 2 `int32`", lists(numbers(), 2, None));
    add("the second of them", lists(numbers(), 2, None).slice(1, 1).unwrap());
    add("lists of 2 lists of 2 `int32`", lists(lists(numbers(), 2, None), 2, None));
    add("lists of 2 `float32` with nulls", lists(gap.clone(), 2, None));
    add("the second of them, which has none", lists(gap, 2, None).slice(1, 1).unwrap());
    let shape = "{\"shape\":[2,2]}";
    add("`arrow.fixed_shape_tensor` of [2, 2]", lists(numbers(), 4, Some(shape)));
    let turned = "{\"shape\":[4,1],\"permutation\":[1,0]}";
    add("`arrow.fixed_shape_tensor` of [4, 1], permuted", lists(numbers(), 4, Some(turned)));
    let opted = [
        (Date32, 4),
        (Date64, 8),
        (Time32(TimeUnit::Second), 4),
        (Time64(TimeUnit::Nanosecond), 8),
        (Timestamp(TimeUnit::Microsecond, None), 8),
        (Duration(TimeUnit::Second), 8),
        (Interval(IntervalUnit::YearMonth), 4),
        (Decimal32 { precision: 9, scale: 2 }, 4),
        (Decimal64 { precision: 18, scale: 2 }, 8),
    ];
    for (data_type, width) in opted {
        add(&format!("`{data_type}`"), of(data_type, width));
    }
    let words = Array::from_values(Int64, [Some(7_i64), Some(8)]).unwrap();
    let keys = Array::builder(DataType::dictionary(IndexType::Int8, Int64)).len(2);
    let keys = keys.buffers([None, Some(vec![1_i8, 0].into())]).dictionary(words);
    add("keys of a dictionary", keys.finish_ready().unwrap());
    let never = [
        (Decimal128 { precision: 38, scale: 0 }, 16),
        (Decimal256 { precision: 76, scale: 0 }, 32),
        (Interval(IntervalUnit::DayTime), 8),
        (Interval(IntervalUnit::MonthDayNano), 16),
        (FixedSizeBinary(3), 3),
    ];
    for (data_type, width) in never {
        add(&format!("`{data_type}`"), of(data_type, width));
    }
    add("text, lists of any length, structs, unions, runs, nulls", {
        Array::builder(Utf8).len(0).buffers([None, None, None]).finish_ready().unwrap()
    });
    all
}

fn of_tensors() -> String {
    let mut table = String::from("| tensor | array | |\n|---|---|---|\n");
    for (name, tensor) in tensors() {
        let is_shared = |array: &Array| tensor.is_empty() || first_of(&tensor) == first_in(array);
        let (how, array) = way(|it| tensor.to_array(it), is_shared);
        let kind = array.map_or("none".into(), |array| {
            let extension = array.field().extension().map(|it| format!("`{}` over ", it.name));
            format!("{} of {}`{}`", array.len(), extension.unwrap_or_default(), array.data_type())
        });
        writeln!(table, "| {name} | {kind} | {how} |").unwrap();
    }
    table
}

fn tensors() -> Vec<(&'static str, Tensor)> {
    let numbers =
        |shape: &[i64]| Tensor::from_buffer(vec![1_i32; 24].into(), Dtype::INT32, shape).unwrap();
    let bytes = |dtype: Dtype| Tensor::from_buffer(vec![1_u64; 48].into(), dtype, &[24]).unwrap();
    let odd = Buffer::from(vec![0_u64; 13]).slice(1, 96).unwrap();
    let cube = || numbers(&[2, 3, 4]);
    let writable = {
        let copy = cube().copy(&Queue::host()).unwrap();
        let managed = copy
            .export::<arrow_device::abi::dlpack::DLManagedTensorVersioned>(
                arrow_device::dlpack::Order::Host,
                CopyPolicy::Never,
            )
            .unwrap();
        let raw = managed.into_raw();
        // SAFETY: nobody else has it.
        let flags = unsafe { &raw mut (*raw).flags };
        // SAFETY: nobody else has it.
        unsafe { flags.write(0) };
        // SAFETY: a tensor that was just exported.
        unsafe { Tensor::import(raw, arrow_device::dlpack::Order::Host) }.unwrap()
    };
    vec![
        ("a number", numbers(&[])),
        ("one dimension", numbers(&[24])),
        ("a part of it", numbers(&[24]).sliced(0, 3, 9, 1).unwrap()),
        ("every second one", numbers(&[24]).sliced(0, 0, 9, 2).unwrap()),
        ("backwards", numbers(&[24]).sliced(0, 23, 24, -1).unwrap()),
        ("not aligned", Tensor::from_buffer(odd, Dtype::INT32, &[24]).unwrap()),
        ("nothing", numbers(&[0])),
        ("[2, 3, 4]", cube()),
        ("[2, 3, 4], the inner two turned", cube().permuted(&[0, 2, 1]).unwrap()),
        ("[2, 3, 4], all turned", cube().permuted(&[2, 1, 0]).unwrap()),
        ("[2, 3, 4], rows 1 and 2 of each", cube().sliced(1, 1, 2, 1).unwrap()),
        ("[2, 3, 4], only the second", cube().sliced(0, 1, 1, 1).unwrap()),
        ("[2, 3, 4], which its producer may write to", writable),
        ("[2, 0, 4]", Tensor::from_buffer(vec![1_i32].into(), Dtype::INT32, &[2, 0, 4]).unwrap()),
        ("`bool`", bytes(Dtype::BOOL)),
        ("`bfloat16`", bytes(Dtype::BFLOAT16)),
        ("`complex64`", bytes(Dtype::COMPLEX64)),
        ("`complex128`", bytes(Dtype::COMPLEX128)),
        ("`float8_e4m3fn`", bytes(Dtype::new(10, 8, 1))),
        ("`float4_e2m1fnx2`", bytes(Dtype::new(17, 4, 2))),
        ("`float32x4`", bytes(Dtype::new(2, 32, 4))),
    ]
}

fn of_batches() -> String {
    let mut table = String::from("| batch or matrix | becomes | |\n|---|---|---|\n");
    let all = Buffer::from((0..12).collect::<Vec<i64>>());
    let batch = |starts: [u64; 3]| {
        let columns = starts.map(|start| {
            let values = all.slice(start * 8, 24).unwrap();
            let column = Array::builder(DataType::Int64).len(3).buffers([None, Some(values)]);
            column.finish_ready().unwrap()
        });
        Batch::from_columns(["a", "b", "c"].into_iter().zip(columns)).unwrap()
    };
    let apart = || {
        let column =
            |first: i64| Array::from_values(DataType::Int64, [Some(first), Some(1)]).unwrap();
        Batch::from_columns([("a", column(0)), ("b", column(1))]).unwrap()
    };
    for (name, batch) in [
        ("columns one behind the other", batch([0, 3, 6])),
        ("some rows of them", batch([0, 3, 6]).slice(1, 2).unwrap()),
        ("columns with equal gaps", batch([0, 4, 8])),
        ("columns with other gaps", batch([0, 3, 7])),
        ("columns in descending order", batch([6, 3, 0])),
        ("columns of different allocations", apart()),
    ] {
        let (how, tensor) =
            way(|it| batch.to_tensor(it), |it| first_of(it) == first_in(&batch.column(0).unwrap()));
        let tensor = tensor.unwrap();
        let strides = tensor.strides();
        writeln!(table, "| {name} | {:?} by {strides:?} | {how} |", tensor.shape()).unwrap();
    }
    let matrix = Tensor::from_buffer(vec![1_i64; 12].into(), Dtype::INT64, &[3, 4]).unwrap();
    for (name, matrix) in [
        ("a matrix in row-major order", matrix.clone()),
        ("a matrix in column-major order", matrix.permuted(&[1, 0]).unwrap()),
        ("one row of a matrix", matrix.sliced(0, 1, 1, 1).unwrap()),
    ] {
        let names: Vec<String> = (0..matrix.shape()[1]).map(|name| name.to_string()).collect();
        let (how, batch) = way(
            |it| matrix.to_batch(&names, it),
            |it| first_of(&matrix) == first_in(&it.column(0).unwrap()),
        );
        let batch = batch.unwrap();
        let (rows, columns) = (batch.row_count(), batch.column_count());
        writeln!(table, "| {name} | {columns} columns of {rows} | {how} |").unwrap();
    }
    table
}
