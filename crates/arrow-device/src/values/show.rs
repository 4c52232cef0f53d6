//! How values are printed.

use std::fmt::{self, Write};

use super::calendar::{write_date, write_date_time, write_time};
use super::value::Value;
use crate::TimeUnit;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Float16(value) | Self::Float32(value) => write!(f, "{value:?}"),
            Self::Float64(value) => write!(f, "{value:?}"),
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Date(days) => write_date(f, i128::from(*days)),
            Self::DateMilliseconds(count) if count % 86_400_000 == 0 => {
                write_date(f, i128::from(count / 86_400_000))
            }
            Self::DateMilliseconds(count) => write_date_time(f, *count, TimeUnit::Millisecond),
            Self::Time(count, unit) => write_time(f, *count, *unit),
            Self::Timestamp(count, unit, zone) => {
                write_date_time(f, *count, *unit)?;
                match zone.as_deref() {
                    None => Ok(()),
                    Some("UTC" | "Z" | "+00:00") => f.write_str("Z"),
                    Some(zone) => write!(f, "Z[{zone}]"),
                }
            }
            Self::Duration(count, unit) => write!(f, "{count}{unit}"),
            Self::Interval { months, days, nanoseconds } => {
                write_interval(f, *months, *days, *nanoseconds)
            }
            Self::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Text(text) => f.write_str(text),
            Self::List(values) => write_all(f, ["[", "]"], values, write_part),
            Self::Struct(fields) => write_all(f, ["{", "}"], fields, |f, (name, value)| {
                write!(f, "{name}: ")?;
                write_part(f, value)
            }),
            Self::Map(pairs) => write_all(f, ["{", "}"], pairs, |f, (key, value)| {
                write_part(f, key)?;
                f.write_str(": ")?;
                write_part(f, value)
            }),
            Self::Union { field, value } => {
                write!(f, "{field}: ")?;
                write_part(f, value)
            }
        }
    }
}

/// Text on one line: characters that would end the line or move what follows are escaped.
pub(super) struct OneLine<'a>(pub(super) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character.is_control() {
            true => write!(f, "{}", character.escape_default()),
            false => f.write_char(character),
        })
    }
}

fn write_all<T>(
    f: &mut fmt::Formatter<'_>,
    [begin, end]: [&str; 2],
    parts: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(begin)?;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write(f, part)?;
    }
    f.write_str(end)
}

/// Writes a value inside another one. Text is quoted there, so that its end can be seen.
fn write_part(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Text(text) => write!(f, "{text:?}"),
        other => write!(f, "{other}"),
    }
}

fn write_interval(
    f: &mut fmt::Formatter<'_>,
    months: i32,
    days: i32,
    nanoseconds: i64,
) -> fmt::Result {
    let (time, unit) = match nanoseconds {
        whole if whole % 1_000_000 == 0 => (whole / 1_000_000, "ms"),
        other => (other, "ns"),
    };
    let plural = |count: i32| if count == 1 { "" } else { "s" };
    let parts: Vec<String> = [
        (months != 0).then(|| format!("{months} month{}", plural(months))),
        (days != 0).then(|| format!("{days} day{}", plural(days))),
        (time != 0).then(|| format!("{time}{unit}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    f.write_str(if parts.is_empty() { "0 days" } else { "" })?;
    f.write_str(&parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_people_write_them() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let interval = |months, days, nanoseconds| Value::Interval { months, days, nanoseconds };
        for (value, text) in [
            (Value::Null, "null"),
            (Value::Boolean(true), "true"),
            (Value::Float32(0.1), "0.1"),
            (Value::Float64(-2.0), "-2.0"),
            (Value::Float64(f64::NAN), "NaN"),
            (Value::Date(19_782), "2024-02-29"),
            (Value::Date(-719_529), "-0001-12-31"),
            (Value::Date(3_000_000), "+10183-09-21"),
            (Value::DateMilliseconds(-86_400_000), "1969-12-31"),
            (Value::DateMilliseconds(1), "1970-01-01T00:00:00.001"),
            (Value::Time(86_399, Second), "23:59:59"),
            (Value::Time(3_723_004_005, Microsecond), "01:02:03.004005"),
            (Value::Time(86_400, Second), "86400s"),
            (Value::Time(-1, Nanosecond), "-1ns"),
            (Value::Timestamp(-1, Millisecond, None), "1969-12-31T23:59:59.999"),
            (Value::Timestamp(0, Second, Some("UTC".into())), "1970-01-01T00:00:00Z"),
            (
                Value::Timestamp(1, Nanosecond, Some("Europe/Paris".into())),
                "1970-01-01T00:00:00.000000001Z[Europe/Paris]",
            ),
            (Value::Timestamp(i64::MIN, Second, None), "-292277022657-01-27T08:29:52"),
            (Value::Duration(-1500, Millisecond), "-1500ms"),
            (interval(14, 1, 0), "14 months 1 day"),
            (interval(0, -3, 250_000_000), "-3 days 250ms"),
            (interval(1, 0, 7), "1 month 7ns"),
            (interval(0, 0, 0), "0 days"),
            (Value::Bytes(vec![0, 0xab]), "0x00ab"),
            (Value::Text("a\"b".into()), "a\"b"),
            (Value::List(vec![Value::Text("a\"b".into()), Value::Null]), r#"["a\"b", null]"#),
            (Value::List(vec![]), "[]"),
            (Value::Struct(vec![("x".into(), Value::Int(1))]), "{x: 1}"),
            (Value::Map(vec![(Value::Text("k".into()), Value::Int(1))]), r#"{"k": 1}"#),
            (Value::Union { field: "u".into(), value: Box::new(Value::Null) }, "u: null"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
