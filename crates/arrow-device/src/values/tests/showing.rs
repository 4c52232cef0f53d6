//! Descriptions and tables.

use arrow_device_testkit::consumer::handed_on;

use super::examples::examples;
use crate::abi::ArrowDeviceArray;
use crate::{Array, Batch, DataType, Field, IndexType, Metadata, Schema, UnionMode};

#[test]
fn every_type_can_be_described_and_shown() {
    for example in examples() {
        let data_type = example.array.data_type();
        let text = example.array.describe();
        assert!(text.starts_with("on cpu, ready\nroot: "), "{data_type}: {text}");
        let nodes = example.array.tree().node_count();
        let lines = text.lines().filter(|line| line.contains(" from ")).count();
        assert_eq!(lines, nodes, "{data_type}: {text}");
        let batch = Batch::from_columns([("column", example.array.clone())]).unwrap();
        let table = batch.to_table(100).unwrap();
        let cells: Vec<&str> = table.lines().skip(3).map(str::trim).collect();
        let short: Vec<String> = example.texts.iter().map(super::super::table::cut).collect();
        assert_eq!(cells, short, "{data_type}");
    }
}

#[test]
fn a_description_names_every_node_and_buffer() {
    let words = Array::from_texts(DataType::Utf8, [Some("a"), Some("bc")]).unwrap();
    let keys = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let keys = Array::from_keys(keys, [Some(1), None], words).unwrap();
    let union = DataType::union(UnionMode::Dense, [Field::new("number", DataType::Int32, true)]);
    let numbers = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
    let union = Array::from_variants(union, [0, 0], [numbers]).unwrap();
    let marked = Field::new("k\ney", keys.data_type().clone(), true)
        .with_metadata(Metadata::from_pairs([("unit", "m")]).unwrap());
    let fields = [marked, Field::new("any", union.data_type().clone(), true)];
    let batch = Batch::new(Schema::batch(fields).unwrap(), [keys, union]).unwrap();
    let description = batch.slice(1, 1).unwrap().as_array().describe();
    assert_eq!(
        description,
        "\
on cpu, ready
root: struct, 1 element from 1, 0 nulls
  validity: none
  k\\ney: dictionary with keys of int8, 2 elements from 0, 1 null
    metadata {unit: m}
    validity: 1 byte
    values, 1 byte each: 2 bytes
    dictionary: utf8, 2 elements from 0, 0 nulls
      validity: none
      offsets, 32 bits: 12 bytes
      data: 3 bytes
  any: dense_union[0], 2 elements from 0, 0 nulls
    type ids: 2 bytes
    offsets into the fields: 8 bytes
    number: int32, 2 elements from 0, 0 nulls
      validity: none
      values, 4 bytes each: 8 bytes
"
    );
}

#[test]
fn a_description_says_what_is_not_known() {
    let words = ["a", "a text that is longer than its view"].map(Some);
    let views = Array::from_texts(DataType::Utf8View, words).unwrap();
    let texts = Array::from_texts(DataType::Utf8, [Some("a"), None]).unwrap();
    let imported = |array: &Array| {
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        // The length of the data of an array of this library would be known.
        c_array.array = handed_on(c_array.array);
        c_array.array.null_count = -1;
        // SAFETY: filled by `export` just now; any null count may be unknown.
        unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap()
    };
    assert_eq!(
        imported(&views).describe(),
        "\
on cpu, ready
root: utf8_view, 2 elements from 0, 0 nulls
  validity: none
  views: at least 32 bytes
  data 0: length not known yet
"
    );
    assert_eq!(
        imported(&texts).describe(),
        "\
on cpu, ready
root: utf8, 2 elements from 0, nulls not counted
  validity: at least 1 byte
  offsets, 32 bits: at least 12 bytes
  data: length not known yet
"
    );
}

#[test]
fn a_cell_is_one_line_and_not_too_wide() {
    let words =
        ["a\nb\u{1b}[31m".into(), "x".repeat(100), "é".repeat(40), "\n".repeat(40)].map(Some);
    let items = Array::from_values(DataType::Int32, (0..1_000).map(Some)).unwrap();
    let list = DataType::list(DataType::Int32);
    let list = Array::from_lists(list, [Some(1_000), Some(0), None, Some(0)], items).unwrap();
    let words = Array::from_texts(DataType::Utf8, words).unwrap();
    let table =
        Batch::from_columns([("wo\trd", words), ("list", list)]).unwrap().to_table(4).unwrap();
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 83), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("wo\\trd "), "{table}");
    assert!(lines[3].starts_with("a\\nb\\u{1b}[31m "), "{table}");
    assert!(lines[3].ends_with("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"), "{table}");
    assert!(lines[4].starts_with(&format!("{}… | []", "x".repeat(39))), "{table}");
    assert!(lines[5].starts_with(&format!("{} | null", "é".repeat(40))), "{table}");
}

#[test]
fn a_table_shows_the_rows_of_its_part() {
    let numbers = Array::from_values(DataType::UInt8, (0..9_u8).map(Some)).unwrap();
    let batch = Batch::from_columns([("n", numbers)]).unwrap().slice(3, 5).unwrap();
    let table = batch.to_table(2).unwrap();
    assert_eq!(table, "n\nuint8\n-----\n    3\n    4\nand 3 more rows\n");
    assert_eq!(batch.to_table(5).unwrap().lines().last(), Some("    7"));
    assert_eq!(batch.to_table(0).unwrap().lines().last(), Some("and 5 more rows"));
}

#[test]
fn columns_that_do_not_fit_side_by_side_come_below() {
    let word = |len: usize| {
        let text = "x".repeat(len);
        Array::from_texts(DataType::Utf8, [Some(text)]).unwrap()
    };
    // 40 + 3 + 40 + 3 + 34 is as wide as a line can be.
    let columns = |last| [("a", word(40)), ("b", word(40)), ("c", word(last)), ("d", word(1))];
    let lines = |last| Batch::from_columns(columns(last)).unwrap().to_table(1).unwrap();
    let heads = |table: &str| {
        let blocks =
            table.split("\n\n").map(|block| block.lines().next().unwrap().replace(' ', ""));
        blocks.collect::<Vec<_>>()
    };
    assert_eq!(heads(&lines(34)), ["a|b|c", "d"]);
    assert_eq!(heads(&lines(35)), ["a|b", "c|d"]);
}
