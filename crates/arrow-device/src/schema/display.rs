//! How types and fields read.

use std::fmt;

use super::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((precision, scale, bits)) = self.decimal() {
            return write!(f, "decimal{bits}({precision}, {scale})");
        }
        match self {
            Self::Time32(unit) => write!(f, "time32[{unit}]"),
            Self::Time64(unit) => write!(f, "time64[{unit}]"),
            Self::Timestamp(unit, None) => write!(f, "timestamp[{unit}]"),
            Self::Timestamp(unit, Some(timezone)) => write!(f, "timestamp[{unit}, {timezone}]"),
            Self::Duration(unit) => write!(f, "duration[{unit}]"),
            Self::Interval(unit) => write!(f, "interval[{unit}]"),
            Self::FixedSizeBinary(size) => write!(f, "fixed_size_binary[{size}]"),
            Self::FixedSizeList(item, size) => write!(f, "fixed_size_list<{item}>[{size}]"),
            Self::Map { entries, keys_sorted } => {
                let sorted = if *keys_sorted { ", keys sorted" } else { "" };
                match (entries.data_type().child(0), entries.data_type().child(1)) {
                    (Some(key), Some(value)) => {
                        write!(f, "map<{}, {}{sorted}>", key.data_type(), value.data_type())
                    }
                    _ => write!(f, "map<{entries}{sorted}>"),
                }
            }
            Self::Union { mode, type_ids, fields } => {
                write!(f, "{mode}_union<")?;
                for (index, (id, field)) in type_ids.iter().zip(fields.iter()).enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{id}={field}")?;
                }
                f.write_str(">")
            }
            Self::Dictionary { index, values, ordered } => {
                let ordered = if *ordered { ", ordered" } else { "" };
                write!(f, "dictionary<{index}, {}{ordered}>", values.data_type())
            }
            Self::RunEndEncoded { run_ends, values } => {
                write!(f, "run_end_encoded<{}, {}>", run_ends.data_type(), values.data_type())
            }
            _ => {
                f.write_str(self.plain_name())?;
                if !self.is_nested() {
                    return Ok(());
                }
                f.write_str("<")?;
                for (index, child) in self.children().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{child}")?;
                }
                f.write_str(">")
            }
        }
    }
}

impl DataType {
    /// The name of the type without its parameters.
    fn plain_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Decimal32 { .. } => "decimal32",
            Self::Decimal64 { .. } => "decimal64",
            Self::Decimal128 { .. } => "decimal128",
            Self::Decimal256 { .. } => "decimal256",
            Self::Date32 => "date32",
            Self::Date64 => "date64",
            Self::Time32(_) => "time32",
            Self::Time64(_) => "time64",
            Self::Timestamp(..) => "timestamp",
            Self::Duration(_) => "duration",
            Self::Interval(_) => "interval",
            Self::Binary => "binary",
            Self::LargeBinary => "large_binary",
            Self::BinaryView => "binary_view",
            Self::Utf8 => "utf8",
            Self::LargeUtf8 => "large_utf8",
            Self::Utf8View => "utf8_view",
            Self::FixedSizeBinary(_) => "fixed_size_binary",
            Self::List(_) => "list",
            Self::LargeList(_) => "large_list",
            Self::ListView(_) => "list_view",
            Self::LargeListView(_) => "large_list_view",
            Self::FixedSizeList(..) => "fixed_size_list",
            Self::Struct(_) => "struct",
            Self::Map { .. } => "map",
            Self::Union { .. } => "union",
            Self::Dictionary { .. } => "dictionary",
            Self::RunEndEncoded { .. } => "run_end_encoded",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_null = if self.is_nullable() { "" } else { " not null" };
        write!(f, "{}: {}{not_null}", self.name_text(), self.data_type())
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
        })
    }
}

impl fmt::Display for IntervalUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::YearMonth => "year_month",
            Self::DayTime => "day_time",
            Self::MonthDayNano => "month_day_nano",
        })
    }
}

impl fmt::Display for UnionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sparse => "sparse",
            Self::Dense => "dense",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::examples;
    use super::*;

    #[test]
    fn types_read_well() {
        let a = || Field::new("a", DataType::Int64, true);
        let b = || Field::new("b", DataType::Utf8, false);
        let dictionary = DataType::dictionary(DataType::Int32, DataType::Utf8);
        let lists = DataType::list_view(DataType::Null);
        for (data_type, text) in [
            (DataType::Boolean, "bool"),
            (DataType::Decimal32 { precision: 5, scale: -1 }, "decimal32(5, -1)"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "timestamp[us, UTC]"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "interval[month_day_nano]"),
            (DataType::FixedSizeBinary(16), "fixed_size_binary[16]"),
            (DataType::list(DataType::struct_([a()])), "list<item: struct<a: int64>>"),
            (DataType::struct_([a(), b()]), "struct<a: int64, b: utf8 not null>"),
            (DataType::struct_([]), "struct<>"),
            (DataType::fixed_size_list(DataType::Float32, 3), "fixed_size_list<item: float32>[3]"),
            (DataType::map(DataType::Utf8, DataType::Int64), "map<utf8, int64>"),
            (
                DataType::union(UnionMode::Dense, [a(), b()]),
                "dense_union<0=a: int64, 1=b: utf8 not null>",
            ),
            (dictionary, "dictionary<int32, utf8>"),
            (
                DataType::run_end_encoded(DataType::Int32, lists),
                "run_end_encoded<int32, list_view<item: null>>",
            ),
        ] {
            assert_eq!(data_type.to_string(), text);
        }
    }

    #[test]
    fn no_two_types_read_the_same() {
        let mut texts: Vec<String> =
            examples().iter().map(|example| example.data_type.to_string()).collect();
        let count = texts.len();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), count);
    }
}
