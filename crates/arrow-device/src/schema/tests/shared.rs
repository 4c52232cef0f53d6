//! Types whose fields are shared on many levels: small in memory, and larger than any loop reaches
//! where each field is visited as often as it is named.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc;
use std::time::Duration;

use super::super::examples::examples;
use super::super::{DataType, Field, IndexType, Metadata, Schema};
use crate::ErrorKind;

/// What a function returns, if it does so soon. Without an end in sight it fails.
fn soon<T: Send + 'static>(what: &str, function: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(function()));
    receiver.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A struct of twice the same field, which is such a struct, on this many levels.
fn doubled(levels: usize, leaf: Field) -> DataType {
    let twice = |field: Field| DataType::struct_([field.clone(), field]);
    (1..levels).fold(twice(leaf), |inner, _| twice(Field::new("a", inner, true)))
}

fn leaf(data_type: DataType) -> Field {
    Field::new("a", data_type, true)
}

// Requirement: SAF-38
#[test]
fn types_that_share_their_fields_are_compared_and_hashed_in_time() {
    let marked =
        || leaf(DataType::Int8).with_metadata(Metadata::from_pairs([("key", "value")]).unwrap());
    let one = || doubled(40, leaf(DataType::Int8));
    soon("==", move || assert!(one() == one() && leaf(one()) == leaf(one())));
    soon("!=", move || assert!(one() != doubled(40, leaf(DataType::Int16))));
    soon("metadata", move || {
        assert!(one() != doubled(40, marked()));
        assert!(one().equals_ignoring_metadata(&doubled(40, marked())));
        assert!(leaf(one()).equals_ignoring_metadata(&leaf(doubled(40, marked()))));
        assert!(!one().equals_ignoring_metadata(&doubled(40, leaf(DataType::Int16))));
    });
    soon("hash", move || {
        let state = RandomState::new();
        assert_eq!(state.hash_one(one()), state.hash_one(one()));
        assert_eq!(state.hash_one(leaf(one())), state.hash_one(leaf(one())));
    });
}

// Requirement: SAF-38
#[test]
fn the_debug_text_of_a_type_that_shares_its_fields_is_short() {
    let texts = soon("{:?}", || {
        let shared = doubled(40, leaf(DataType::Int8));
        [format!("{shared:?}"), format!("{:?}", leaf(shared.clone())), format!("{shared:#?}")]
    });
    for text in texts {
        assert!(text.len() <= (64 << 10) + 3 && text.ends_with('…'), "{}", text.len());
    }
}

// Requirement: SAF-38
#[test]
fn types_of_any_depth_are_compared_and_hashed() {
    let levels: [fn(DataType) -> DataType; 2] =
        [DataType::list, |inner| DataType::dictionary(IndexType::Int8, inner)];
    for level in levels {
        let deep = |inner| (0..100_000).fold(inner, |inner, _| level(inner));
        let (one, same, other) =
            (deep(DataType::Int8), deep(DataType::Int8), deep(DataType::Int16));
        assert!(one == same && one != other);
        assert!(one.equals_ignoring_metadata(&same) && !one.equals_ignoring_metadata(&other));
        let state = RandomState::new();
        assert_eq!(state.hash_one(&one), state.hash_one(&same));
        assert!(format!("{one:?}").ends_with('…'));
    }
}

// Requirement: SAF-38
#[test]
fn a_schema_of_a_type_that_shares_its_fields_is_refused() {
    let errors = soon("schemas", || {
        let shared = || doubled(40, leaf(DataType::Int8));
        [Schema::new(shared()).unwrap_err(), Schema::batch([leaf(shared())]).unwrap_err()]
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}

// Requirement: SAF-38
#[test]
fn a_schema_whose_fields_share_a_long_text_is_refused() {
    let long = "n".repeat(1 << 10);
    let zone = DataType::from_format(format!("tsn:{long}"), [], None, 0).unwrap();
    let metadata = Metadata::from_pairs([("key", &long)]).unwrap();
    let leaves = [
        Field::new(&long, DataType::Int8, true),
        leaf(DataType::Int8).with_metadata(metadata),
        leaf(zone),
    ];
    for leaf in leaves {
        // 65,536 times the text is more than may be, and 32,768 times is less.
        let error = Schema::new(doubled(16, leaf.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        Schema::new(doubled(15, leaf)).unwrap();
    }
}

#[test]
fn types_are_equal_and_hash_alike_where_they_say_the_same() {
    let state = RandomState::new();
    let all: Vec<DataType> = examples().into_iter().map(|example| example.data_type).collect();
    let again: Vec<DataType> = examples().into_iter().map(|example| example.data_type).collect();
    for (number, one) in all.iter().enumerate() {
        for (other_number, other) in again.iter().enumerate() {
            assert_eq!(one == other, number == other_number, "{one} and {other}");
            assert_eq!(
                format!("{one:?}") == format!("{other:?}"),
                number == other_number,
                "{one:?}"
            );
        }
        assert_eq!(state.hash_one(one), state.hash_one(&again[number]), "{one}");
    }
}
