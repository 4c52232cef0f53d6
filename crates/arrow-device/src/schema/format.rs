//! The format strings of the C data interface, read and written.
//!
//! A format string describes a type, apart from its children, its dictionary and its flags, which
//! lie beside the string in an `ArrowSchema`. Reading a type puts the four together. Any bytes can
//! be read: bytes that are no format string give an error that names the byte where they stop being
//! one. Reading takes one pass, and only type ids and time zones allocate memory.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::data_type::{MAX_TYPE_ID, max_precision};
use super::field::{DICTIONARY_ORDERED, MAP_KEYS_SORTED};
use super::{DataType, Field, IndexType, IntervalUnit, Text, TimeUnit, UnionMode};
use crate::{Error, ErrorKind, Result};

/// The longest format string that is read. Only a time zone could make one longer.
pub(crate) const MAX_FORMAT_BYTES: usize = 64 << 10;

impl DataType {
    /// The type that a format string describes, together with the children, the dictionary and the
    /// flags beside it.
    ///
    /// ```
    /// use arrow_device::DataType;
    ///
    /// let seconds = DataType::from_format("tss:Europe/Paris", [], None, 0)?;
    /// assert_eq!(seconds.to_string(), "timestamp[s, Europe/Paris]");
    ///
    /// let error = DataType::from_format("d:10;2", [], None, 0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "malformed struct: format `d:10;2`, byte 4: expected `,`, found `;`"
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_format<C>(
        format: impl AsRef<[u8]>,
        children: C,
        dictionary: Option<Field>,
        flags: i64,
    ) -> Result<Self>
    where
        C: IntoIterator<Item = Field, IntoIter: ExactSizeIterator>,
    {
        parse(format.as_ref(), children, dictionary, flags, &mut |timezone| Text::from(timezone))
    }

    /// The format string of the type. For most types the string is a part of the program and costs
    /// nothing.
    ///
    /// For a dictionary-encoded type this is the format string of the indices.
    pub fn format(&self) -> Text {
        write(self)
    }
}

/// Reads a type. `timezone` makes a text of a time zone, and may return one that exists already.
pub(crate) fn parse<C>(
    format: &[u8],
    children: C,
    dictionary: Option<Field>,
    flags: i64,
    timezone: &mut dyn FnMut(&str) -> Text,
) -> Result<DataType>
where
    C: IntoIterator<Item = Field, IntoIter: ExactSizeIterator>,
{
    let shape = read(format, timezone)?;
    let mut children = children.into_iter();
    let found = children.len();
    let miscounted = |expected: usize| miscounted(format, expected, found);
    let expected = shape.children().unwrap_or(found);
    if found != expected {
        return Err(miscounted(expected));
    }
    let mut next = || match children.next() {
        Some(child) => Ok(Arc::new(child)),
        None => Err(miscounted(expected)),
    };
    let data_type = match (shape, dictionary) {
        (shape, Some(values)) => {
            let index = match &shape {
                FormatShape::Leaf(leaf) => IndexType::of(leaf),
                _ => None,
            };
            let Some(index) = index else {
                return Err(malformed(
                    format,
                    0,
                    &"an integer format, since there is a dictionary",
                ));
            };
            let ordered = flags & DICTIONARY_ORDERED != 0;
            DataType::Dictionary { index, values: Arc::new(values), ordered }
        }
        (FormatShape::Leaf(leaf), None) => leaf,
        (FormatShape::List(list), None) => list(next()?),
        (FormatShape::FixedSizeList(size), None) => DataType::FixedSizeList(next()?, size),
        (FormatShape::Map, None) => {
            DataType::Map { entries: next()?, keys_sorted: flags & MAP_KEYS_SORTED != 0 }
        }
        (FormatShape::RunEndEncoded, None) => {
            DataType::RunEndEncoded { run_ends: next()?, values: next()? }
        }
        (FormatShape::Struct, None) => DataType::Struct(children.collect()),
        (FormatShape::Union(mode, type_ids), None) => {
            DataType::Union { mode, type_ids: type_ids.into(), fields: children.collect() }
        }
    };
    match data_type.flaw() {
        None => Ok(data_type),
        Some(flaw) => {
            let message = format!("format `{}`, byte {}: {flaw}", Quoted(format), format.len());
            Err(Error::new(ErrorKind::Malformed, message))
        }
    }
}

/// What a format string says without the children, the dictionary and the flags.
pub(super) enum FormatShape {
    Leaf(DataType),
    /// A type with one child and no other parameter.
    List(fn(Arc<Field>) -> DataType),
    FixedSizeList(i32),
    Struct,
    Map,
    Union(UnionMode, Vec<i8>),
    RunEndEncoded,
}

impl FormatShape {
    /// How many children there must be; `None` where any number will do.
    pub(super) fn children(&self) -> Option<usize> {
        match self {
            Self::Leaf(_) => Some(0),
            Self::Struct => None,
            Self::Union(_, type_ids) => Some(type_ids.len()),
            Self::RunEndEncoded => Some(2),
            Self::Map | Self::List(_) | Self::FixedSizeList(_) => Some(1),
        }
    }
}

/// Reads a format string. `timezone` makes a text of a time zone, as in [`parse`].
pub(super) fn read(format: &[u8], timezone: &mut dyn FnMut(&str) -> Text) -> Result<FormatShape> {
    if format.len() > MAX_FORMAT_BYTES {
        let len = format.len();
        let message = format!("a format has {len} bytes; {MAX_FORMAT_BYTES} is the limit");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(FormatShape::Leaf(match format {
        b"n" => DataType::Null,
        b"b" => DataType::Boolean,
        b"c" => DataType::Int8,
        b"C" => DataType::UInt8,
        b"s" => DataType::Int16,
        b"S" => DataType::UInt16,
        b"i" => DataType::Int32,
        b"I" => DataType::UInt32,
        b"l" => DataType::Int64,
        b"L" => DataType::UInt64,
        b"e" => DataType::Float16,
        b"f" => DataType::Float32,
        b"g" => DataType::Float64,
        b"z" => DataType::Binary,
        b"Z" => DataType::LargeBinary,
        b"vz" => DataType::BinaryView,
        b"u" => DataType::Utf8,
        b"U" => DataType::LargeUtf8,
        b"vu" => DataType::Utf8View,
        b"tdD" => DataType::Date32,
        b"tdm" => DataType::Date64,
        b"tts" => DataType::Time32(TimeUnit::Second),
        b"ttm" => DataType::Time32(TimeUnit::Millisecond),
        b"ttu" => DataType::Time64(TimeUnit::Microsecond),
        b"ttn" => DataType::Time64(TimeUnit::Nanosecond),
        b"tDs" => DataType::Duration(TimeUnit::Second),
        b"tDm" => DataType::Duration(TimeUnit::Millisecond),
        b"tDu" => DataType::Duration(TimeUnit::Microsecond),
        b"tDn" => DataType::Duration(TimeUnit::Nanosecond),
        b"tiM" => DataType::Interval(IntervalUnit::YearMonth),
        b"tiD" => DataType::Interval(IntervalUnit::DayTime),
        b"tin" => DataType::Interval(IntervalUnit::MonthDayNano),
        b"+l" => return Ok(FormatShape::List(DataType::List)),
        b"+L" => return Ok(FormatShape::List(DataType::LargeList)),
        b"+vl" => return Ok(FormatShape::List(DataType::ListView)),
        b"+vL" => return Ok(FormatShape::List(DataType::LargeListView)),
        b"+s" => return Ok(FormatShape::Struct),
        b"+m" => return Ok(FormatShape::Map),
        b"+r" => return Ok(FormatShape::RunEndEncoded),
        [b't', b's', b's', b':', ..] => read_timestamp(format, TimeUnit::Second, timezone)?,
        [b't', b's', b'm', b':', ..] => read_timestamp(format, TimeUnit::Millisecond, timezone)?,
        [b't', b's', b'u', b':', ..] => read_timestamp(format, TimeUnit::Microsecond, timezone)?,
        [b't', b's', b'n', b':', ..] => read_timestamp(format, TimeUnit::Nanosecond, timezone)?,
        [b'd', b':', ..] => read_decimal(format)?,
        [b'w', b':', ..] => DataType::FixedSizeBinary(read_size(format, 2)?),
        [b'+', b'w', b':', ..] => return Ok(FormatShape::FixedSizeList(read_size(format, 3)?)),
        [b'+', b'u', b's', b':', ..] => {
            return Ok(FormatShape::Union(UnionMode::Sparse, read_type_ids(format)?));
        }
        [b'+', b'u', b'd', b':', ..] => {
            return Ok(FormatShape::Union(UnionMode::Dense, read_type_ids(format)?));
        }
        _ => return Err(unknown(format)),
    }))
}

/// Reads `tss:` and a time zone, which may be empty.
fn read_timestamp(
    format: &[u8],
    unit: TimeUnit,
    timezone: &mut dyn FnMut(&str) -> Text,
) -> Result<DataType> {
    const START: usize = "tss:".len();
    let bytes = format.get(START..).unwrap_or_default();
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(format, START + error.valid_up_to(), &"UTF-8"))?;
    if let Some(at) = text.find('\0') {
        return Err(malformed(format, START + at, &"a time zone without a NUL byte"));
    }
    Ok(DataType::Timestamp(unit, (!text.is_empty()).then(|| timezone(text))))
}

/// Reads `d:precision,scale` for 128 bits, or `d:precision,scale,bits`.
fn read_decimal(format: &[u8]) -> Result<DataType> {
    const START: usize = "d:".len();
    let mut reader = FormatReader { format, at: START };
    let precision = reader.number(1..=i32::from(u8::MAX))?;
    reader.expect(b',')?;
    let scale = reader.number(i32::MIN..=i32::MAX)?;
    let mut bits = 128;
    if !reader.is_at_end() {
        reader.expect(b',')?;
        let at = reader.at;
        bits = reader.number(0..=i32::MAX)?;
        reader.expect_end()?;
        if ![32, 64, 128, 256].contains(&bits) {
            return Err(malformed(format, at, &"32, 64, 128 or 256 bits"));
        }
    }
    let most = max_precision(bits);
    let Some(precision) = u8::try_from(precision).ok().filter(|precision| *precision <= most)
    else {
        return Err(malformed(format, START, &format_args!("a number from 1 to {most}")));
    };
    Ok(match bits {
        32 => DataType::Decimal32 { precision, scale },
        64 => DataType::Decimal64 { precision, scale },
        128 => DataType::Decimal128 { precision, scale },
        _ => DataType::Decimal256 { precision, scale },
    })
}

/// Reads the number from byte `start` to the end.
fn read_size(format: &[u8], start: usize) -> Result<i32> {
    let mut reader = FormatReader { format, at: start };
    let size = reader.number(0..=i32::MAX)?;
    reader.expect_end()?;
    Ok(size)
}

/// Reads `+us:0,1,2`. There is no number where there are no children.
fn read_type_ids(format: &[u8]) -> Result<Vec<i8>> {
    let mut reader = FormatReader { format, at: "+us:".len() };
    let mut type_ids = Vec::new();
    if reader.is_at_end() {
        return Ok(type_ids);
    }
    loop {
        let at = reader.at;
        let id = reader.number(0..=i32::from(MAX_TYPE_ID))?;
        // The number of different ids is limited, so this also ends the loop.
        match i8::try_from(id) {
            Ok(id) if !type_ids.contains(&id) => type_ids.push(id),
            _ => return Err(malformed(format, at, &"a type id that differs from those before it")),
        }
        if reader.is_at_end() {
            return Ok(type_ids);
        }
        reader.expect(b',')?;
    }
}

/// A format string, and how far it was read.
struct FormatReader<'a> {
    format: &'a [u8],
    at: usize,
}

impl FormatReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.format.len()
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(malformed(self.format, self.at, &Byte(byte)));
        }
        self.at += 1;
        Ok(())
    }

    fn expect_end(&self) -> Result<()> {
        if self.is_at_end() { Ok(()) } else { Err(malformed(self.format, self.at, &"the end")) }
    }

    /// Reads decimal digits, with a leading `-` where the range goes below zero. An error in the
    /// range names the byte where the number starts.
    fn number(&mut self, range: RangeInclusive<i32>) -> Result<i32> {
        let start = self.at;
        let is_negative = *range.start() < 0 && self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        let digits = self.at;
        let mut number = 0_i64;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            number = number.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == digits {
            return Err(malformed(self.format, self.at, &"a digit"));
        }
        let number = if is_negative { -number } else { number };
        i32::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            malformed(self.format, start, &format_args!("a number from {least} to {most}"))
        })
    }
}

/// How every known format string begins. Those that end with a colon go on after it.
const STARTS: &[&str] = &[
    "n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g", "z", "Z", "vz", "u", "U",
    "vu", "d:", "w:", "tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tsm:", "tsu:", "tsn:",
    "tDs", "tDm", "tDu", "tDn", "tiM", "tiD", "tin", "+l", "+L", "+vl", "+vL", "+w:", "+s", "+m",
    "+us:", "+ud:", "+r",
];

/// The error for a format string with an unknown beginning. It names the byte where the string
/// leaves all known ones, and says how these go on there.
#[cold]
fn unknown(format: &[u8]) -> Error {
    let common = |start: &str| start.bytes().zip(format).take_while(|(a, b)| a == *b).count();
    let at = STARTS.iter().map(|start| common(start)).max().unwrap_or(0);
    if at == 0 {
        return malformed(format, 0, &"the first letter of a type");
    }
    let mut expected: Vec<String> = Vec::new();
    for start in STARTS.iter().filter(|start| common(start) == at) {
        let next = match start.as_bytes().get(at) {
            Some(byte) => Byte(*byte).to_string(),
            None => "the end".to_owned(),
        };
        if !expected.contains(&next) {
            expected.push(next);
        }
    }
    malformed(format, at, &expected.join(" or "))
}

#[cold]
fn miscounted(format: &[u8], expected: usize, found: usize) -> Error {
    let (quoted, end) = (Quoted(format), format.len());
    let message =
        format!("format `{quoted}`, byte {end}: expected {expected} children, found {found}");
    Error::new(ErrorKind::Malformed, message)
}

#[cold]
fn malformed(format: &[u8], at: usize, expected: &dyn fmt::Display) -> Error {
    let quoted = Quoted(format);
    let message = match format.get(at) {
        Some(byte) => {
            format!("format `{quoted}`, byte {at}: expected {expected}, found {}", Byte(*byte))
        }
        None => format!("format `{quoted}`, byte {at}: expected {expected}, found the end"),
    };
    Error::new(ErrorKind::Malformed, message)
}

/// A byte as a character in quotes.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.escape_ascii())
    }
}

/// The first bytes of a format string, on one line.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 40;
        match self.0.get(..MOST) {
            Some(start) if self.0.len() > MOST => write!(f, "{}...", start.escape_ascii()),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

/// The format string of a type.
pub(crate) fn write(data_type: &DataType) -> Text {
    Text::from_static(match data_type {
        DataType::Null => "n\0",
        DataType::Boolean => "b\0",
        DataType::Int8 => "c\0",
        DataType::UInt8 => "C\0",
        DataType::Int16 => "s\0",
        DataType::UInt16 => "S\0",
        DataType::Int32 => "i\0",
        DataType::UInt32 => "I\0",
        DataType::Int64 => "l\0",
        DataType::UInt64 => "L\0",
        DataType::Float16 => "e\0",
        DataType::Float32 => "f\0",
        DataType::Float64 => "g\0",
        DataType::Binary => "z\0",
        DataType::LargeBinary => "Z\0",
        DataType::BinaryView => "vz\0",
        DataType::Utf8 => "u\0",
        DataType::LargeUtf8 => "U\0",
        DataType::Utf8View => "vu\0",
        DataType::Date32 => "tdD\0",
        DataType::Date64 => "tdm\0",
        DataType::Time32(unit) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => "tts\0",
            TimeUnit::Millisecond => "ttm\0",
            TimeUnit::Microsecond => "ttu\0",
            TimeUnit::Nanosecond => "ttn\0",
        },
        DataType::Timestamp(unit, None) => match unit {
            TimeUnit::Second => "tss:\0",
            TimeUnit::Millisecond => "tsm:\0",
            TimeUnit::Microsecond => "tsu:\0",
            TimeUnit::Nanosecond => "tsn:\0",
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => "tDs\0",
            TimeUnit::Millisecond => "tDm\0",
            TimeUnit::Microsecond => "tDu\0",
            TimeUnit::Nanosecond => "tDn\0",
        },
        DataType::Interval(unit) => match unit {
            IntervalUnit::YearMonth => "tiM\0",
            IntervalUnit::DayTime => "tiD\0",
            IntervalUnit::MonthDayNano => "tin\0",
        },
        DataType::List(_) => "+l\0",
        DataType::LargeList(_) => "+L\0",
        DataType::ListView(_) => "+vl\0",
        DataType::LargeListView(_) => "+vL\0",
        DataType::Struct(_) => "+s\0",
        DataType::Map { .. } => "+m\0",
        DataType::RunEndEncoded { .. } => "+r\0",
        DataType::Dictionary { index, .. } => return write(index.data_type()),
        DataType::Timestamp(unit, Some(timezone)) => {
            let unit = write(&DataType::Timestamp(*unit, None));
            return format!("{unit}{timezone}").into();
        }
        DataType::Decimal128 { precision, scale } => {
            return format!("d:{precision},{scale}").into();
        }
        DataType::Decimal32 { precision, scale } => {
            return format!("d:{precision},{scale},32").into();
        }
        DataType::Decimal64 { precision, scale } => {
            return format!("d:{precision},{scale},64").into();
        }
        DataType::Decimal256 { precision, scale } => {
            return format!("d:{precision},{scale},256").into();
        }
        DataType::FixedSizeBinary(size) => return format!("w:{size}").into(),
        DataType::FixedSizeList(_, size) => return format!("+w:{size}").into(),
        DataType::Union { mode, type_ids, .. } => {
            let type_ids: Vec<String> = type_ids.iter().map(i8::to_string).collect();
            let mode = match mode {
                UnionMode::Sparse => "+us:",
                UnionMode::Dense => "+ud:",
            };
            return format!("{mode}{}", type_ids.join(",")).into();
        }
    })
}
