//! Which bytes are a format, and where others go wrong.

use proptest::prelude::*;

use super::{Parse, Verdict, config, real_parse, real_write, require};
use crate::schema::examples::{Example, examples};
use crate::schema::{DataType, Field};
use crate::{Error, ErrorKind};

/// Formats that are none, and the byte where they stop being one.
const MALFORMED: &[(&[u8], usize)] = &[
    (b"", 0),
    (b"x", 0),
    (b"\0", 0),
    (b"\xff", 0),
    (b" i", 0),
    (b"i ", 1),
    (b"ii", 1),
    (b"d", 1),
    (b"d:", 2),
    (b"d:10", 4),
    (b"d:,2", 2),
    (b"d:+1,2", 2),
    (b"d: 1,2", 2),
    (b"d:-1,2", 2),
    (b"d:0,2", 2),
    (b"d:39,2", 2),
    (b"d:256,2", 2),
    (b"d:99999999999999999999999999,2", 2),
    (b"d:10;2", 4),
    (b"d:10,", 5),
    (b"d:10,-", 6),
    (b"d:10,--1", 6),
    (b"d:10,2147483648", 5),
    (b"d:10,-2147483649", 5),
    (b"d:10,2 ", 6),
    (b"d:10,2,", 7),
    (b"d:10,2,16", 7),
    (b"d:10,2,-32", 7),
    (b"d:10,2,128,", 10),
    (b"d:10,2,32", 2),
    (b"d:19,2,64", 2),
    (b"d:77,2,256", 2),
    (b"v", 1),
    (b"vx", 1),
    (b"vuu", 2),
    (b"w", 1),
    (b"w:", 2),
    (b"w:-1", 2),
    (b"w:-0", 2),
    (b"w:2147483648", 2),
    (b"w:3,", 3),
    (b"t", 1),
    (b"td", 2),
    (b"tdX", 2),
    (b"tdDD", 3),
    (b"tts:", 3),
    (b"tsx:", 2),
    (b"tss", 3),
    (b"tssUTC", 3),
    (b"tss:\xff", 4),
    (b"tss:UTC\xc3", 7),
    (b"tss:a\0b", 5),
    (b"tix", 2),
    (b"+", 1),
    (b"+x", 1),
    (b"+v", 2),
    (b"+w:", 3),
    (b"+w:x", 3),
    (b"+w:-1", 3),
    (b"+w:99999999999", 3),
    (b"+u", 2),
    (b"+ux:", 2),
    (b"+us", 3),
    (b"+us:,", 4),
    (b"+us:0,", 6),
    (b"+us:0,,1", 6),
    (b"+us:0,0", 6),
    (b"+us:128", 4),
    (b"+us:-1", 4),
    (b"+ud:0 ,1", 5),
    (b"+ll", 2),
];

fn check_formats(parse: Parse<'_>, write: &dyn Fn(&DataType) -> String) -> Verdict {
    for Example { format, children, data_type } in examples() {
        let read = parse(format.as_bytes(), children, None, 0);
        let read = read.map_err(|error| format!("`{format}` was refused: {error}"))?;
        require(read == data_type, || format!("`{format}` was read as {read}, not {data_type}"))?;
        let written = write(&data_type);
        require(written == format, || format!("{data_type} was written as `{written}`"))?;
    }
    for (format, position) in MALFORMED {
        let shown = format.escape_ascii();
        match parse(format, Vec::new(), None, 0) {
            Ok(data_type) => return Err(format!("`{shown}` was read as {data_type}")),
            Err(error) => require(
                error.kind() == ErrorKind::Malformed
                    && error.message().contains(&format!(", byte {position}: ")),
                || format!("`{shown}` should go wrong at byte {position}, not so: {error}"),
            )?,
        }
    }
    Ok(())
}

// Requirement: SCH-1
#[test]
fn every_format_is_understood_and_anything_else_is_an_error_with_its_position() {
    assert_eq!(check_formats(&real_parse, &real_write), Ok(()));
}

// Requirement: SCH-1
#[test]
fn wrong_readers_and_writers_of_formats_are_caught() {
    let trims: Parse<'_> = &|format, children, dictionary, flags| {
        real_parse(format.trim_ascii(), children, dictionary, flags)
    };
    let ignores_what_follows: Parse<'_> = &|format, children, dictionary, flags| match format {
        [b'i', ..] => Ok(DataType::Int32),
        _ => real_parse(format, children, dictionary, flags),
    };
    let guesses: Parse<'_> = &|format, children, dictionary, flags| {
        Ok(real_parse(format, children, dictionary, flags).unwrap_or(DataType::Null))
    };
    let knows_no_views: Parse<'_> = &|format, children, dictionary, flags| match format {
        b"vu" => Err(Error::new(ErrorKind::Unsupported, "no views")),
        _ => real_parse(format, children, dictionary, flags),
    };
    let forgets_the_position: Parse<'_> = &|format, children, dictionary, flags| {
        let read = real_parse(format, children, dictionary, flags);
        read.map_err(|error| Error::new(error.kind(), "not a format"))
    };
    let counts_from_one: Parse<'_> = &|format, children, dictionary, flags| {
        let longer = [b"i", format].concat();
        match real_parse(format, children, dictionary, flags) {
            Err(_) => real_parse(&longer, Vec::new(), None, 0),
            read => read,
        }
    };
    for (wrong, parse) in [
        ("trims", trims),
        ("ignores what follows", ignores_what_follows),
        ("guesses", guesses),
        ("knows no views", knows_no_views),
        ("forgets the position", forgets_the_position),
        ("counts from one", counts_from_one),
    ] {
        assert!(check_formats(parse, &real_write).is_err(), "a reader that {wrong} passed");
    }
    let always_writes_bits = |data_type: &DataType| match data_type.decimal() {
        Some((precision, scale, bits)) => format!("d:{precision},{scale},{bits}"),
        None => real_write(data_type),
    };
    assert!(check_formats(&real_parse, &always_writes_bits).is_err());
}

#[test]
fn a_decimal_may_name_its_128_bits() {
    let data_type = DataType::from_format("d:10,2,128", [], None, 0).unwrap();
    assert_eq!(data_type, DataType::Decimal128 { precision: 10, scale: 2 });
}

#[test]
fn the_number_of_children_is_checked() {
    for Example { format, children, .. } in examples() {
        let count = children.len();
        let one_more = [children.clone(), vec![DataType::Int16.into()]].concat();
        let refused = DataType::from_format(format, one_more, None, 0);
        if format != "+s" {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(&format!("expected {count} child")), "{message}");
        }
        if count > 0 && format != "+s" {
            let one_less = children.into_iter().skip(1).collect::<Vec<_>>();
            assert!(DataType::from_format(format, one_less, None, 0).is_err(), "{format}");
        }
    }
}

#[test]
fn a_map_of_something_else_and_run_ends_of_another_type_are_refused() {
    let three = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int8, true));
    for entries in [DataType::Int32, DataType::struct_([]), DataType::struct_(three)] {
        let error = DataType::from_format("+m", [entries.into()], None, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
    for run_ends in [DataType::Int8, DataType::UInt32, DataType::Utf8] {
        let children = [run_ends.into(), DataType::Utf8.into()];
        let error = DataType::from_format("+r", children, None, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
}

#[test]
fn a_format_that_never_ends_is_refused_and_quoted_in_part() {
    let long = [b"tss:".as_slice(), &[b'x'; 70_000]].concat();
    let error = DataType::from_format(&long, [], None, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let error = DataType::from_format([b'\xff'; 60_000], [], None, 0).unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
}

fn any_format() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&str> = examples().iter().map(|example| example.format).collect();
    let known = proptest::sample::select(known);
    let mangled = (known, any::<proptest::sample::Index>(), any::<u8>(), 0..3).prop_map(
        |(format, index, byte, how)| {
            let mut format = format.as_bytes().to_vec();
            let at = index.index(format.len());
            match how {
                0 => format[at] = byte,
                1 => format.insert(at, byte),
                _ => drop(format.remove(at)),
            }
            format
        },
    );
    let like = "[+dwtsuvDiMlLrm]{0,3}:?[-+0-9, ]{0,12}".prop_map(String::into_bytes);
    prop_oneof![mangled, like, proptest::collection::vec(any::<u8>(), 0..64)]
}

proptest! {
    #![proptest_config(config())]

    // Requirement: SCH-1
    #[test]
    fn any_bytes_are_a_type_that_travels_or_an_error_with_a_position(
        format in any_format(),
        child_count in 0_usize..4,
        has_dictionary: bool,
        flags: i64,
    ) {
        let children = vec![Field::from(DataType::Int32); child_count];
        let dictionary = has_dictionary.then(|| Field::from(DataType::Utf8));
        match DataType::from_format(&format, children.clone(), dictionary.clone(), flags) {
            Ok(data_type) => {
                let written = data_type.format();
                prop_assert_eq!(data_type.check().map_err(|error| error.to_string()), Ok(()));
                let again = DataType::from_format(&*written, children, dictionary, flags);
                prop_assert_eq!(again.map_err(|error| error.to_string()), Ok(data_type));
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Malformed);
                let (_, behind) = error.message().split_once("`, byte ").unwrap();
                let (position, _) = behind.split_once(": ").unwrap();
                prop_assert!(position.parse::<usize>().unwrap() <= format.len(), "{}", error);
            }
        }
    }
}
