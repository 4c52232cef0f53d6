//! What travels with a field: its flags and its extension type.

use super::{Verdict, require};
use crate::schema::examples::{Example, examples};
use crate::schema::{DataType, Field, IndexType, Metadata, Text};

/// What an implementation makes of the flags of a field it was handed, when it hands the field on.
type HandOnFlags<'a> = &'a dyn Fn(&Example, Option<Field>, i64) -> i64;

fn check_flags(hand_on: HandOnFlags<'_>) -> Verdict {
    let single_bits = (0..64).map(|bit| 1_i64 << bit);
    let flags = single_bits.chain(0..8).chain([-1, i64::MAX, 0x7000_0000_0000_0006]);
    let values = || Some(Field::new("", DataType::Utf8, true));
    for flags in flags {
        for example in examples() {
            let handed_on = hand_on(&example, None, flags);
            let format = example.format;
            require(handed_on == flags, || {
                format!("`{format}`: {flags:#x} became {handed_on:#x}")
            })?;
            if example.data_type.is_integer() {
                let handed_on = hand_on(&example, values(), flags);
                require(handed_on == flags, || {
                    format!("dictionary of `{format}`: {flags:#x} became {handed_on:#x}")
                })?;
            }
        }
    }
    Ok(())
}

fn real_flags(example: &Example, dictionary: Option<Field>, flags: i64) -> i64 {
    let Example { format, children, .. } = example.clone();
    let data_type = DataType::from_format(format, children, dictionary, flags).unwrap();
    Field::from_parts(Text::EMPTY, data_type, Metadata::EMPTY, flags).flags()
}

// Requirement: SCH-3
#[test]
fn flags_that_are_known_and_flags_that_are_not_travel_on() {
    assert_eq!(check_flags(&real_flags), Ok(()));
}

// Requirement: SCH-3
#[test]
fn implementations_that_lose_flags_are_caught() {
    let wrong: [(&str, HandOnFlags<'_>); 5] = [
        ("keeps the three known ones", &|_, _, flags| flags & 7),
        ("keeps 32 bits", &|_, _, flags| i64::from(flags as i32)),
        ("makes all nullable", &|_, _, flags| flags | 2),
        ("forgets order", &|_, dictionary, flags| match dictionary {
            Some(_) => flags & !1,
            None => flags,
        }),
        ("forgets sorted keys", &|example, _, flags| match example.data_type {
            DataType::Map { .. } => flags & !4,
            _ => flags,
        }),
    ];
    for (wrong, hand_on) in wrong {
        assert!(check_flags(hand_on).is_err(), "an implementation that {wrong} passed");
    }
}

// Requirement: SCH-3
#[test]
fn the_three_known_flags_are_seen_in_the_type() {
    assert_eq!(Field::new("", DataType::Int8, false).flags(), 0);
    assert_eq!(Field::new("", DataType::Int8, true).flags(), 2);
    let values = || Some(Field::new("", DataType::Utf8, true));
    for ordered in [false, true] {
        let data_type = DataType::from_format("c", [], values(), i64::from(ordered)).unwrap();
        assert!(matches!(data_type, DataType::Dictionary { ordered: seen, .. } if seen == ordered));
        let field = Field::new("", data_type.clone(), false);
        assert_eq!(field.flags(), i64::from(ordered));
        let same = Field::from_parts(Text::EMPTY, data_type, Metadata::EMPTY, i64::from(ordered));
        assert_eq!(same, field, "a flag that the type tells must not be kept twice");
    }
    let map = examples().into_iter().find(|example| example.format == "+m").unwrap();
    for sorted in [false, true] {
        let flags = 4 * i64::from(sorted);
        let children = map.children.clone();
        let data_type = DataType::from_format(map.format, children, None, flags).unwrap();
        assert!(matches!(data_type, DataType::Map { keys_sorted, .. } if keys_sorted == sorted));
        assert_eq!(Field::new("", data_type, true).flags(), flags | 2);
    }
}

/// A field taken apart into what an `ArrowSchema` holds, and put together from that again.
fn travel(field: &Field) -> Field {
    let data_type = field.data_type();
    let children: Vec<Field> = data_type.children().map(travel).collect();
    let dictionary = data_type.dictionary_values().map(travel);
    let data_type =
        DataType::from_format(&*data_type.format(), children, dictionary, field.flags()).unwrap();
    let metadata = match field.metadata().as_encoded_bytes() {
        Some(encoded) => Metadata::decode(encoded).unwrap().0,
        None => Metadata::EMPTY,
    };
    Field::from_parts(Text::from(field.name()), data_type, metadata, field.flags())
}

type Travel<'a> = &'a dyn Fn(&Field) -> Field;

fn check_extensions(travel: Travel<'_>) -> Verdict {
    let of_another = Metadata::from_pairs([("source", "elsewhere")]).unwrap();
    let dictionary = DataType::dictionary(IndexType::UInt8, DataType::Utf8);
    let storages = examples().into_iter().map(|example| example.data_type).chain([dictionary]);
    for storage in storages {
        for (name, parameters) in [("arrow.json", &b""[..]), ("nobody.knows", b"\0\xff{}")] {
            let field = Field::new("x", storage.clone(), true).with_metadata(of_another.clone());
            let field = field.with_extension(name, parameters).unwrap();
            for field in [field.clone(), Field::new("outer", DataType::list(field), false)] {
                let arrived = travel(&field);
                require(arrived == field, || format!("{field} arrived as {arrived}"))?;
                let inner = arrived.data_type().child(0).filter(|_| field.name() == "outer");
                let extension = inner.unwrap_or(&arrived).extension();
                let same = extension
                    .is_some_and(|found| found.name == name && found.metadata == parameters);
                require(same, || format!("{name} over {storage} arrived as {extension:?}"))?;
            }
        }
    }
    Ok(())
}

// Requirement: SCH-5
#[test]
fn an_extension_travels_with_any_storage_type() {
    assert_eq!(check_extensions(&travel), Ok(()));
}

// Requirement: SCH-5
#[test]
fn implementations_that_lose_extensions_are_caught() {
    let bare = |field: &Field| travel(field).with_metadata(Metadata::EMPTY);
    let wrong: [(&str, Travel<'_>); 4] = [
        ("drops metadata", &bare),
        ("keeps those it knows", &|field| match field.extension() {
            Some(extension) if !extension.name.starts_with("arrow.") => bare(field),
            _ => travel(field),
        }),
        ("loses them below a list", &|field| match field.data_type() {
            DataType::List(item) => Field::new(field.name(), DataType::list(bare(item)), false),
            _ => travel(field),
        }),
        ("reads their storage as bytes", &|field| match field.extension() {
            Some(_) => Field::new(field.name(), DataType::Binary, field.is_nullable())
                .with_metadata(field.metadata().clone()),
            None => travel(field),
        }),
    ];
    for (wrong, travel) in wrong {
        assert!(check_extensions(travel).is_err(), "an implementation that {wrong} passed");
    }
}
