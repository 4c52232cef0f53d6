//! What is exchanged. All peers have the same buffers: they are made once, by this library, and
//! taken over through C.

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, DataType, Field};

/// Rows of everything.
pub(super) const ROWS: i64 = 1024;

/// An array or a batch with its name and size in the results.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) shape: &'static str,
    pub(super) size: u64,
    pub(super) array: Array,
    pub(super) is_batch: bool,
}

impl Data {
    pub(super) fn flat(shape: &'static str) -> Self {
        let array = match shape {
            "int64" => numbers(),
            "utf8" => texts(DataType::Utf8),
            "utf8view" => texts(DataType::Utf8View),
            "nested" => nested(),
            other => panic!("nothing is called {other}"),
        };
        Self { shape, size: 1, array, is_batch: false }
    }

    /// Columns of numbers.
    pub(super) fn batch(columns: u64) -> Self {
        let numbers = numbers();
        Self::of("batch", columns, |_| numbers.clone())
    }

    /// Columns of four types.
    pub(super) fn mixed(columns: u64) -> Self {
        let floats = (0..ROWS).map(|row| present(row).then_some(row as f64));
        let floats = Array::from_values::<f64>(DataType::Float64, floats).unwrap();
        let bools = (0..ROWS).map(|row| present(row).then_some(row % 2 == 0));
        let kinds = [numbers(), floats, texts(DataType::Utf8), Array::from_bools(bools).unwrap()];
        Self::of("mixed batch", columns, |column| kinds[column as usize % 4].clone())
    }

    /// Columns of strings, no two of the same memory.
    pub(super) fn texts(columns: u64) -> Self {
        Self::of("batch of strings", columns, |_| texts(DataType::Utf8))
    }

    fn of(shape: &'static str, columns: u64, column: impl Fn(u64) -> Array) -> Self {
        let columns_of = (0..columns).map(|index| (format!("c{index}"), column(index)));
        let batch = Batch::from_columns(columns_of).unwrap();
        Self { shape, size: columns, array: batch.as_array().clone(), is_batch: true }
    }

    pub(super) fn export(&self, out: &mut ArrowDeviceArray) {
        self.array.export(out).unwrap();
    }

    pub(super) fn export_schema(&self, out: &mut ArrowSchema) {
        self.array.schema().unwrap().export(out).unwrap();
    }

    /// The same with one owner, as whoever gets the batches of a stream has them.
    pub(super) fn imported(&self) -> Array {
        let mut out = ArrowDeviceArray::empty();
        self.export(&mut out);
        let schema = self.array.schema().unwrap();
        // SAFETY: it was just exported, by a library that keeps the rules.
        unsafe { Array::import(&mut out, &schema) }.unwrap()
    }
}

fn present(row: i64) -> bool {
    row % 7 != 0
}

/// The row's number, some of them null.
fn numbers() -> Array {
    let values = (0..ROWS).map(|row| present(row).then_some(row));
    Array::from_values::<i64>(DataType::Int64, values).unwrap()
}

/// What is short enough for a view to have no buffer beside it.
fn texts(of: DataType) -> Array {
    let values = (0..ROWS).map(|row| present(row).then(|| format!("row {row}")));
    Array::from_texts(of, values).unwrap()
}

/// `struct<a: int64, b: list<struct<x: utf8, y: float64>>, c: list<int32>>`.
fn nested() -> Array {
    let named = |name: &str, of: &Array| Field::new(name, of.data_type().clone(), true);
    let floats = (0..ROWS).map(|row| Some(row as f64));
    let floats = Array::from_values::<f64>(DataType::Float64, floats).unwrap();
    let inner = [texts(DataType::Utf8), floats];
    let inner_type = DataType::Struct([named("x", &inner[0]), named("y", &inner[1])].into());
    let all = || (0..ROWS).map(|_| true);
    let inner = Array::from_fields(inner_type, all(), inner).unwrap();
    let ones = || (0..ROWS).map(|_| Some(1));
    let lists = DataType::List(named("item", &inner).into());
    let lists = Array::from_lists(lists, ones(), inner).unwrap();
    let small = (0..ROWS).map(|row| Some(row as i32));
    let small = Array::from_values::<i32>(DataType::Int32, small).unwrap();
    let small_lists = DataType::List(named("item", &small).into());
    let small = Array::from_lists(small_lists, ones(), small).unwrap();
    let fields = [numbers(), lists, small];
    let names = ["a", "b", "c"];
    let of = names.iter().zip(&fields).map(|(name, array)| named(name, array)).collect::<Vec<_>>();
    Array::from_fields(DataType::Struct(of.into()), all(), fields).unwrap()
}
