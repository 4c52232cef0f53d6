//! Types, fields and schemas: what is kept, and what is an error because it could not be.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_device::{DataType, ErrorKind, Field, IndexType, Metadata, Schema, TimeUnit, UnionMode};

use super::arrow::schema as rs;
use super::ours::{FromArrow as _, ToArrow as _};

fn round_trip(field: &Field) {
    let theirs = field.to_arrow().unwrap();
    assert_eq!(&Field::from_arrow(&theirs).unwrap(), field);
}

#[test]
fn flags_and_metadata_are_kept_at_every_level() {
    let pairs = [("a", "1"), ("b", "2")];
    let marked = |name: &str, data_type| {
        Field::new(name, data_type, true).with_metadata(Metadata::from_pairs(pairs).unwrap())
    };
    let json = marked("j", DataType::Utf8).with_extension("arrow.json", "").unwrap();
    let sorted = |field: Field| Field::from_arrow(&field.to_arrow().unwrap()).unwrap();
    assert_eq!(sorted(json.clone()).extension(), json.extension());
    assert_eq!(sorted(json.clone()).metadata().len(), 4);

    let ordered = DataType::Dictionary {
        index: IndexType::UInt8,
        values: Arc::new(Field::new("", DataType::Utf8, true)),
        ordered: true,
    };
    let DataType::Map { entries, .. } = DataType::map(DataType::Utf8, ordered.clone()) else {
        panic!("a map is made by `map`");
    };
    let map = DataType::Map { entries, keys_sorted: true };
    round_trip(&marked("m", map.clone()));
    round_trip(&marked("o", ordered.clone()));
    round_trip(&Field::new("n", DataType::list(marked("item", map)), false));
    round_trip(&Field::new("s", DataType::struct_([marked("x", ordered)]), false));
    let theirs = rs::Field::new(
        "d",
        rs::DataType::Dictionary(rs::DataType::Int8.into(), rs::DataType::Utf8.into()),
        true,
    );
    let DataType::Dictionary { ordered, .. } = *Field::from_arrow(&theirs).unwrap().data_type()
    else {
        panic!("a dictionary is one")
    };
    assert!(!ordered);
}

#[test]
fn what_arrow_rs_has_no_place_for_is_an_error_and_not_lost() {
    let dictionary = |values: Field| DataType::Dictionary {
        index: IndexType::Int8,
        values: Arc::new(values),
        ordered: true,
    };
    let pairs = |pairs: [(&[u8], &[u8]); 2]| {
        Field::new("x", DataType::Int8, true).with_metadata(Metadata::from_pairs(pairs).unwrap())
    };
    let plain = |data_type| Field::new("x", data_type, true);
    for lost in [
        pairs([(b"a", b"1"), (b"a", b"2")]),
        pairs([(b"a", b"\xff"), (b"b", b"2")]),
        plain(DataType::Decimal128 { precision: 10, scale: 128 }),
        plain(DataType::Decimal256 { precision: 10, scale: -129 }),
        plain(dictionary(pairs([(b"a", b"1"), (b"b", b"2")]))),
        plain(dictionary(plain(dictionary(plain(DataType::Utf8))))),
        plain(DataType::list(pairs([(b"a", b"1"), (b"a", b"2")]))),
    ] {
        let error = lost.to_arrow().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{lost}: {error}");
    }
    let error = Schema::try_from(DataType::Int8).unwrap().to_arrow().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

#[test]
fn a_type_that_is_none_is_an_error_and_no_panic() {
    let union = |type_ids: &[i8]| DataType::Union {
        mode: UnionMode::Sparse,
        type_ids: type_ids.into(),
        fields: [Field::from(DataType::Int8), Field::from(DataType::Utf8)].into(),
    };
    let deep = (0..1000).fold(DataType::Int8, |inner, _| DataType::list(inner));
    for (wrong, kind) in [
        (union(&[3, 3]), ErrorKind::InvalidArgument),
        (union(&[-1, 3]), ErrorKind::InvalidArgument),
        (union(&[3]), ErrorKind::InvalidArgument),
        (DataType::list(union(&[3, 3])), ErrorKind::InvalidArgument),
        (deep, ErrorKind::LimitExceeded),
    ] {
        assert_eq!(wrong.to_arrow().unwrap_err().kind(), kind);
        assert_eq!(Field::new("x", wrong, true).to_arrow().unwrap_err().kind(), kind);
    }
}

#[test]
fn what_c_cannot_say_is_an_error() {
    let zone = rs::DataType::Timestamp(rs::TimeUnit::Second, Some("".into()));
    for (name, data_type) in [("a\0b", rs::DataType::Int8), ("z", zone)] {
        let schema = rs::Schema::new(vec![rs::Field::new(name, data_type, true)]);
        let error = Schema::from_arrow(&schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let deep = (0..1000).fold(rs::DataType::Int8, |inner, _| {
        rs::DataType::List(Arc::new(rs::Field::new("item", inner, true)))
    });
    let error = DataType::from_arrow(&deep).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let fits = (0..64).fold(rs::DataType::Int8, |inner, _| {
        rs::DataType::List(Arc::new(rs::Field::new("item", inner, true)))
    });
    let fits = DataType::from_arrow(&fits).unwrap();
    Schema::try_from(fits).unwrap();
}

// Requirement: SAF-38
#[test]
fn a_type_that_shares_its_fields_on_many_levels_is_refused() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let theirs = (0..40).fold(rs::DataType::Int8, |inner, _| {
            let field = Arc::new(rs::Field::new("a", inner, true));
            rs::DataType::Struct([Arc::clone(&field), field].into_iter().collect())
        });
        let ours = (0..40).fold(DataType::Int8, |inner, _| {
            let field = Field::new("a", inner, true);
            DataType::struct_([field.clone(), field])
        });
        let errors = [
            DataType::from_arrow(&theirs).unwrap_err(),
            Field::from_arrow(&rs::Field::new("a", theirs, true)).unwrap_err(),
            ours.to_arrow().unwrap_err(),
            Field::new("a", ours, true).to_arrow().unwrap_err(),
        ];
        sender.send(errors).unwrap();
    });
    for error in receiver.recv_timeout(std::time::Duration::from_secs(20)).unwrap() {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}

// Requirement: SAF-38
#[test]
fn a_type_that_shares_a_long_text_is_refused_before_the_text_is_copied() {
    let long = "n".repeat(1 << 20);
    let zone = || rs::DataType::Timestamp(rs::TimeUnit::Second, Some(long.as_str().into()));
    let pair = ("key".to_owned(), long.clone());
    let leaves = [
        rs::Field::new(&long, rs::DataType::Int8, true),
        rs::Field::new("a", rs::DataType::Int8, true).with_metadata(HashMap::from([pair])),
        rs::Field::new("a", zone(), true),
    ];
    for leaf in leaves {
        // 131,072 times the text, which is 128 GiB.
        let theirs = (0..17).fold(leaf, |field, _| {
            let field = Arc::new(field);
            let twice = [Arc::clone(&field), field].into_iter().collect();
            rs::Field::new("a", rs::DataType::Struct(twice), true)
        });
        let schema = rs::Schema::new(vec![theirs.clone()]);
        for error in [
            DataType::from_arrow(theirs.data_type()).unwrap_err(),
            Field::from_arrow(&theirs).unwrap_err(),
            Schema::from_arrow(&schema).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        }
    }
    let leaf = Field::new(&long, DataType::Int8, true);
    let ours = (0..17)
        .fold(leaf, |field, _| Field::new("a", DataType::struct_([field.clone(), field]), true));
    assert_eq!(ours.data_type().to_arrow().unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(ours.to_arrow().unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn time_zones_and_units_are_kept() {
    for unit in
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
    {
        for zone in [None, Some("UTC".into()), Some("+05:30".into())] {
            round_trip(&Field::new("t", DataType::Timestamp(unit, zone), true));
        }
        round_trip(&Field::new("d", DataType::Duration(unit), true));
    }
}
