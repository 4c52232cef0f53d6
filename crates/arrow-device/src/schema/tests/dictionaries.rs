//! Where a dictionary may be, and what the format is then.

use super::{Parse, Verdict, real_parse, real_write, require};
use crate::schema::examples::{Example, examples};
use crate::schema::{DataType, Field, IndexType};
use crate::{Error, ErrorKind};

fn check_dictionaries(parse: Parse<'_>, write: &dyn Fn(&DataType) -> String) -> Verdict {
    let values = || Field::new("values", DataType::LargeUtf8, false);
    for Example { format, children, data_type } in examples() {
        let read = parse(format.as_bytes(), children.clone(), Some(values()), 0);
        if !data_type.is_integer() {
            let message = || format!("`{format}` with a dictionary is {read:?}");
            let is_refused = |error: &Error| {
                error.kind() == ErrorKind::Malformed && error.message().contains(", byte 0: ")
            };
            require(read.as_ref().is_err_and(is_refused), message)?;
            continue;
        }
        let read = read.map_err(|error| format!("`{format}` with a dictionary: {error}"))?;
        let DataType::Dictionary { index, values: read_values, .. } = &read else {
            return Err(format!("`{format}` with a dictionary was read as {read}"));
        };
        require(*index.data_type() == data_type && **read_values == values(), || {
            format!("it became {read}")
        })?;
        let written = write(&read);
        require(written == format, || format!("{read} was written as `{written}`"))?;
        require(read.dictionary_values() == Some(&values()), || format!("{read} lost its values"))?;
        let plain = parse(format.as_bytes(), children, None, 0).ok();
        require(plain == Some(data_type), || format!("`{format}` alone was read as {plain:?}"))?;
    }
    Ok(())
}

// Requirement: SCH-4
#[test]
fn a_dictionary_makes_the_format_that_of_its_indices() {
    assert_eq!(check_dictionaries(&real_parse, &real_write), Ok(()));
}

// Requirement: SCH-4
#[test]
fn wrong_readers_and_writers_of_dictionaries_are_caught() {
    let ignores_it: Parse<'_> =
        &|format, children, _, flags| real_parse(format, children, None, flags);
    let takes_any_index: Parse<'_> = &|format, children, dictionary, flags| {
        let index = real_parse(format, children, None, flags)?;
        Ok(match dictionary {
            Some(values) => {
                let known = IndexType::try_from(&index).unwrap_or(IndexType::Int32);
                DataType::dictionary(known, values.data_type().clone())
            }
            None => index,
        })
    };
    let takes_the_format_for_the_values: Parse<'_> = &|format, children, dictionary, flags| {
        let values = real_parse(format, children, None, flags)?;
        Ok(match dictionary {
            Some(_) => DataType::dictionary(IndexType::Int32, values),
            None => values,
        })
    };
    let sees_one_in_every_integer: Parse<'_> = &|format, children, dictionary, flags| {
        let none = Field::new("", DataType::Null, true);
        match format {
            b"i" => real_parse(format, children, dictionary.or(Some(none)), flags),
            _ => real_parse(format, children, dictionary, flags),
        }
    };
    for (wrong, parse) in [
        ("ignores it", ignores_it),
        ("takes any index", takes_any_index),
        ("takes the format for the values", takes_the_format_for_the_values),
        ("sees one in every integer", sees_one_in_every_integer),
    ] {
        assert!(check_dictionaries(parse, &real_write).is_err(), "a reader that {wrong} passed");
    }
    let writes_the_values = |data_type: &DataType| match data_type.dictionary_values() {
        Some(values) => real_write(values.data_type()),
        None => real_write(data_type),
    };
    assert!(check_dictionaries(&real_parse, &writes_the_values).is_err());
}
