//! How types and fields are printed.

use std::fmt::{self, Write};

use super::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

/// The longest text of a type. Without a bound, one shared field could be printed a quarter of a
/// million times.
const LONGEST: usize = 64 << 10;
/// How many levels of a type are written. A schema has fewer.
const DEEPEST: usize = 100;

/// A text that is cut where it gets too long or too deep.
struct Limited<'out> {
    out: &'out mut dyn Write,
    /// How many more bytes may be written.
    left: usize,
    depth: usize,
    is_cut: bool,
    /// Whether metadata, flags, and names that most types share are written too.
    tells_all: bool,
}

impl Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(left) = self.left.checked_sub(text.len()) {
            self.left = left;
            return self.out.write_str(text);
        }
        let end = (0..=self.left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.out.write_str(text.get(..end).unwrap_or_default())?;
        self.cut()
    }
}

impl Limited<'_> {
    /// Writes a type or a field, up to the longest text.
    fn write_all(
        f: &mut fmt::Formatter<'_>,
        tells_all: bool,
        what: impl FnOnce(&mut Limited<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut limited = Limited { out: f, left: LONGEST, depth: 0, is_cut: false, tells_all };
        let written = what(&mut limited);
        if limited.is_cut { Ok(()) } else { written }
    }

    /// Ends the text here.
    fn cut(&mut self) -> fmt::Result {
        if !self.is_cut {
            (self.left, self.is_cut) = (0, true);
            self.out.write_str("…")?;
        }
        Err(fmt::Error)
    }

    fn write_field(&mut self, field: &Field) -> fmt::Result {
        write!(self, "{}: ", field.name_text())?;
        self.write_type(field.data_type())?;
        self.write_str(if field.is_nullable() { "" } else { " not null" })?;
        if self.tells_all && !field.metadata().is_empty() {
            write!(self, " {}", field.metadata())?;
        }
        match field.unknown_flags() {
            flags if self.tells_all && flags != 0 => write!(self, " flags {flags:#x}"),
            _ => Ok(()),
        }
    }

    /// Writes a field whose name most types of its kind share.
    fn write_usual_field(&mut self, field: &Field) -> fmt::Result {
        if self.tells_all { self.write_field(field) } else { self.write_type(field.data_type()) }
    }

    fn write_type(&mut self, data_type: &DataType) -> fmt::Result {
        if self.depth == DEEPEST {
            return self.cut();
        }
        self.depth += 1;
        self.write_parts(data_type)?;
        self.depth -= 1;
        Ok(())
    }

    fn write_parts(&mut self, data_type: &DataType) -> fmt::Result {
        if let Some((precision, scale, bits)) = data_type.decimal() {
            return write!(self, "decimal{bits}({precision}, {scale})");
        }
        match data_type {
            DataType::Time32(unit) => write!(self, "time32[{unit}]"),
            DataType::Time64(unit) => write!(self, "time64[{unit}]"),
            DataType::Timestamp(unit, None) => write!(self, "timestamp[{unit}]"),
            DataType::Timestamp(unit, Some(timezone)) => {
                write!(self, "timestamp[{unit}, {timezone}]")
            }
            DataType::Duration(unit) => write!(self, "duration[{unit}]"),
            DataType::Interval(unit) => write!(self, "interval[{unit}]"),
            DataType::FixedSizeBinary(size) => write!(self, "fixed_size_binary[{size}]"),
            DataType::FixedSizeList(item, size) => {
                self.write_str("fixed_size_list<")?;
                self.write_field(item)?;
                write!(self, ">[{size}]")
            }
            DataType::Map { entries, keys_sorted } => {
                self.write_str("map<")?;
                match (entries.data_type().child(0), entries.data_type().child(1)) {
                    (Some(key), Some(value)) if !self.tells_all => {
                        self.write_type(key.data_type())?;
                        self.write_str(", ")?;
                        self.write_type(value.data_type())?;
                    }
                    _ => self.write_field(entries)?,
                }
                self.write_str(if *keys_sorted { ", keys sorted>" } else { ">" })
            }
            DataType::Union { mode, type_ids, fields } => {
                write!(self, "{mode}_union<")?;
                for (index, (id, field)) in type_ids.iter().zip(fields.iter()).enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(self, "{separator}{id}=")?;
                    self.write_field(field)?;
                }
                self.write_str(">")
            }
            DataType::Dictionary { index, values, ordered } => {
                self.write_str("dictionary<")?;
                self.write_type(index.data_type())?;
                self.write_str(", ")?;
                self.write_usual_field(values)?;
                self.write_str(if *ordered { ", ordered>" } else { ">" })
            }
            DataType::RunEndEncoded { run_ends, values } => {
                self.write_str("run_end_encoded<")?;
                self.write_usual_field(run_ends)?;
                self.write_str(", ")?;
                self.write_usual_field(values)?;
                self.write_str(">")
            }
            _ => {
                self.write_str(data_type.plain_name())?;
                if !data_type.is_nested() {
                    return Ok(());
                }
                self.write_str("<")?;
                for (index, child) in data_type.children().enumerate() {
                    self.write_str(if index == 0 { "" } else { ", " })?;
                    self.write_field(child)?;
                }
                self.write_str(">")
            }
        }
    }
}

/// At most 64 KiB of text. A longer text, or one that is nested deeper than any schema, ends with
/// `…`.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Limited::write_all(f, false, |text| text.write_type(self))
    }
}

/// As [`Display`](fmt::Display), but with the metadata, the flags and the names of all fields. At
/// most 64 KiB of text.
impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Limited::write_all(f, true, |text| text.write_type(self))
    }
}

impl DataType {
    /// The texts of this type and of another one, for a message about two types that are not equal.
    ///
    /// The texts are those of [`Display`](fmt::Display). Where these are the same, because the
    /// types differ in something that `Display` leaves out, the texts are those of
    /// [`Debug`](fmt::Debug).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_device::{DataType, Field, IndexType};
    ///
    /// let keys_of = |values, is_nullable| DataType::Dictionary {
    ///     index: IndexType::Int8,
    ///     values: Arc::new(Field::new("values", values, is_nullable)),
    ///     ordered: false,
    /// };
    /// let texts = keys_of(DataType::Utf8, true);
    /// assert_eq!(
    ///     texts.told_apart(&keys_of(DataType::Int8, true)),
    ///     ["dictionary<int8, utf8>", "dictionary<int8, int8>"]
    /// );
    /// assert_eq!(
    ///     texts.told_apart(&keys_of(DataType::Utf8, false)),
    ///     ["dictionary<int8, values: utf8>", "dictionary<int8, values: utf8 not null>"]
    /// );
    /// ```
    #[cold]
    pub fn told_apart(&self, other: &Self) -> [String; 2] {
        let [text, other_text] = [self, other].map(Self::to_string);
        if text == other_text {
            return [self, other].map(|data_type| format!("{data_type:?}"));
        }
        [text, other_text]
    }

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

/// At most 64 KiB of text, as for a [`DataType`].
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Limited::write_all(f, false, |text| text.write_field(self))
    }
}

/// As [`Display`](fmt::Display), but with the metadata, the flags and the names of all fields.
impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Limited::write_all(f, true, |text| text.write_field(self))
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
    use crate::IndexType;

    #[test]
    fn types_read_well() {
        let a = || Field::new("a", DataType::Int64, true);
        let b = || Field::new("b", DataType::Utf8, false);
        let dictionary = DataType::dictionary(IndexType::Int32, DataType::Utf8);
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

    // Requirement: SAF-32
    #[test]
    fn a_type_of_any_size_has_a_short_text() {
        let name = "long".repeat(25_000);
        let twice = |inner: DataType, name: &str| {
            let field = Field::new(name, inner, true);
            DataType::struct_([field.clone(), field])
        };
        let wide = (0..40).fold(DataType::Int8, |inner, _| twice(inner, &name));
        let many = (0..60).fold(DataType::Int8, |inner, _| twice(inner, "é"));
        let deep = (0..100_000).fold(DataType::Int8, |inner, _| DataType::list(inner));
        for data_type in [wide, many, deep] {
            let texts = [data_type.to_string(), Field::new("a", data_type, true).to_string()];
            for text in texts {
                assert!(text.len() <= LONGEST + 3 && text.ends_with('…'), "{}", text.len());
            }
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
