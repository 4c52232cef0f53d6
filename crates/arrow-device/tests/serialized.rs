//! Schemas and ids of devices through a format of serde.
#![allow(clippy::unwrap_used)]

use std::io;

use arrow_device::{DataType, DeviceId, DeviceType, Field, IndexType, Metadata, Schema, TimeUnit};

fn there_and_back(schema: &Schema) -> Schema {
    serde_json::from_str(&serde_json::to_string(schema).unwrap()).unwrap()
}

#[test]
fn a_schema_comes_back_as_it_was() {
    let metadata = Metadata::from_pairs([(&b"unit"[..], &b"\xff\x00"[..])]).unwrap();
    let zone = DataType::from_format("tsn:Europe/Paris", [], None, 0).unwrap();
    let words = DataType::dictionary(IndexType::Int8, DataType::list(DataType::Utf8));
    let runs = DataType::run_end_encoded(DataType::Int32, words.clone());
    let fields = [
        Field::new("id", DataType::Int64, false).with_metadata(metadata),
        Field::new("", zone, true),
        Field::new("w\u{f6}rter", words, true),
        Field::new("runs", runs, true),
        Field::new(
            "s",
            DataType::struct_([Field::new("t", DataType::Time64(TimeUnit::Nanosecond), true)]),
            true,
        ),
        Field::new("fixed", DataType::FixedSizeBinary(7), true),
    ];
    let schema = Schema::batch(fields).unwrap();
    assert_eq!(there_and_back(&schema), schema);
    for data_type in [DataType::Null, DataType::Boolean, DataType::Utf8View] {
        let schema = Schema::try_from(data_type).unwrap();
        assert_eq!(there_and_back(&schema), schema);
    }
}

#[test]
fn a_type_that_is_nested_deep_comes_back() {
    let mut data_type = DataType::Int8;
    for _ in 0..60 {
        data_type = DataType::list(data_type);
    }
    let schema = Schema::try_from(data_type).unwrap();
    assert_eq!(there_and_back(&schema), schema);
}

#[test]
fn what_is_no_schema_is_refused() {
    for wrong in [
        "[]",
        r#"[{"format":"i","flags":0},{"format":"i","flags":0}]"#,
        r#"[{"format":"+l","flags":0,"children":1}]"#,
        r#"[{"format":"+l","flags":0,"children":4294967295}]"#,
        r#"[{"format":"i","flags":0,"dictionary":true}]"#,
        r#"[{"format":"no","flags":0}]"#,
        r#"[{"format":"i","flags":0,"name":"a\u0000b"}]"#,
        r#"[{"format":"i"}]"#,
    ] {
        assert!(serde_json::from_str::<Schema>(wrong).is_err(), "{wrong}");
    }
}

/// A list of one field again and again, which is cut off after so many bytes.
struct Again<'a> {
    field: &'a [u8],
    at: usize,
    left: usize,
}

impl io::Read for Again<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.left);
        let endless = self.field.iter().copied().cycle().skip(self.at % self.field.len());
        bytes.iter_mut().zip(endless).take(count).for_each(|(byte, next)| *byte = next);
        self.at += count;
        self.left -= count;
        Ok(count)
    }
}

// Requirement: SAF-32, SAF-38
#[test]
#[cfg(not(miri))]
fn fields_without_end_are_refused() {
    let long = format!(r#"{{"format":"n","flags":0,"name":"{}"}},"#, "n".repeat(1 << 16));
    for field in [r#"{"format":"n","flags":0},"#, &*long] {
        let again = Again { field: field.as_bytes(), at: 0, left: 64 << 20 };
        let input = io::Read::chain(&b"["[..], again);
        let read = serde_json::from_reader::<_, Schema>(io::BufReader::new(input));
        let error = read.unwrap_err().to_string();
        assert!(error.contains("at most 262144 fields and 48 MiB"), "{error}");
    }
}

#[test]
fn an_id_comes_back_as_it_was() {
    for id in [DeviceId::CPU, DeviceId::new(DeviceType(4711), -3)] {
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<DeviceId>(&text).unwrap(), id, "{text}");
    }
}
