//! Schemas and ids of devices through a format of serde.
#![allow(clippy::unwrap_used)]

use std::io;

use arrow_device::{DataType, DeviceId, DeviceType, Field, IndexType, Metadata, Schema, TimeUnit};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor, value};

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

/// A value that repeats itself, which takes less time than its text.
#[derive(Clone)]
enum Given {
    Number(u8),
    Times(usize, Box<Given>),
    Pair(usize),
    Field(Box<Given>),
}

impl<'de> IntoDeserializer<'de, value::Error> for Given {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let list = |times| Self::Times(times, Box::new(Self::Number(1)));
        match self {
            Self::Number(number) => visitor.visit_u8(number),
            Self::Times(times, item) => {
                visitor.visit_seq(value::SeqDeserializer::new(std::iter::repeat_n(*item, times)))
            }
            Self::Pair(len) => {
                visitor.visit_seq(value::SeqDeserializer::new([list(0), list(len)].into_iter()))
            }
            Self::Field(metadata) => {
                let format = Self::Number(b'n');
                let members =
                    [("format", format), ("flags", Self::Number(0)), ("metadata", *metadata)];
                visitor.visit_map(value::MapDeserializer::new(members.into_iter()))
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_str("n")
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

// Requirement: SAF-32, SAF-38
#[test]
#[cfg(not(miri))]
fn metadata_without_end_is_refused() {
    const END: usize = 1 << 40;
    let schema = |fields, pairs, len| {
        let metadata = Given::Times(pairs, Box::new(Given::Pair(len)));
        let fields = Given::Times(fields, Box::new(Given::Field(Box::new(metadata))));
        Schema::deserialize(fields)
    };
    assert!(schema(1, 1, 1).is_ok());
    for (pairs, len) in [(END, 0), (END, 1 << 20), (1, END)] {
        let error = schema(1, pairs, len).unwrap_err().to_string();
        assert!(error.contains("at most 65536 pairs and 24 MiB"), "{error}");
    }
    // Pairs without a byte count, too.
    let error = schema(END, 60_000, 0).unwrap_err().to_string();
    assert!(error.contains("at most 262144 fields and 48 MiB"), "{error}");
}

#[test]
fn an_id_comes_back_as_it_was() {
    for id in [DeviceId::CPU, DeviceId::new(DeviceType(4711), -3)] {
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<DeviceId>(&text).unwrap(), id, "{text}");
    }
}
