//! Converts types, fields and schemas both ways.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_device::{
    DataType, Error, ErrorKind, Field, IndexType, IntervalUnit, Metadata, NodePath, Result, Schema,
    Step, TimeUnit, UnionMode,
};

use super::arrow::schema as rs;
use crate::{MAX_DEPTH, MAX_FIELDS, MAX_TEXT};

// ----------------------------------------------------------------------------------------------
// from arrow-rs

pub(super) fn schema_from(schema: &rs::Schema) -> Result<Schema> {
    let left = Left::default();
    let columns = fields_from(&schema.fields, TypeRoom::new(&left))?;
    let root = Field::new("", DataType::Struct(columns), false);
    Schema::new(root.with_metadata(metadata_from(schema.metadata.iter())?))
}

pub(super) fn field_from(field: &rs::Field) -> Result<Field> {
    nested_field_from(field, TypeRoom::new(&Left::default()))
}

pub(super) fn data_type_from(data_type: &rs::DataType) -> Result<DataType> {
    nested_type_from(data_type, TypeRoom::new(&Left::default()))
}

/// How much may still come in a type, on any level. A type of few fields that are shared on many
/// levels stands for more fields than there is time for, and repeats their texts as often.
struct Left {
    fields: Cell<usize>,
    text: Cell<usize>,
}

impl Default for Left {
    fn default() -> Self {
        Self { fields: Cell::new(MAX_FIELDS), text: Cell::new(MAX_TEXT) }
    }
}

/// How many levels, fields and texts a type may still have below it.
#[derive(Clone, Copy)]
struct TypeRoom<'left> {
    levels: usize,
    left: &'left Left,
}

impl<'left> TypeRoom<'left> {
    fn new(left: &'left Left) -> Self {
        Self { levels: MAX_DEPTH, left }
    }

    /// Returns the room of a field one level below.
    fn deeper(self) -> Result<Self> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { levels, ..self }),
            None => Err(too_large(format!("is nested more than {MAX_DEPTH} levels deep"))),
        }
    }

    fn take_field(self) -> Result<()> {
        let Some(fields) = self.left.fields.get().checked_sub(1) else {
            return Err(too_large(format!("has more than {MAX_FIELDS} fields")));
        };
        self.left.fields.set(fields);
        Ok(())
    }

    /// Counts the bytes of a text, before the text is copied.
    fn take_text(self, bytes: usize) -> Result<()> {
        let Some(text) = self.left.text.get().checked_sub(bytes) else {
            let most = MAX_TEXT >> 20;
            return Err(too_large(format!("has names and metadata of more than {most} MiB")));
        };
        self.left.text.set(text);
        Ok(())
    }
}

fn too_large(how: String) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("a type {how}")).during("from_arrow")
}

fn nested_field_from(field: &rs::Field, room: TypeRoom<'_>) -> Result<Field> {
    room.take_field()?;
    let pairs = field.metadata().iter().map(|(key, value)| key.len().saturating_add(value.len()));
    room.take_text(pairs.fold(field.name().len(), usize::saturating_add))?;
    let mut data_type = nested_type_from(field.data_type(), room)?;
    if let DataType::Dictionary { ordered, .. } = &mut data_type {
        *ordered = field.dict_is_ordered() == Some(true);
    }
    let metadata = metadata_from(field.metadata().iter())?;
    Ok(Field::new(field.name().as_str(), data_type, field.is_nullable()).with_metadata(metadata))
}

fn fields_from(fields: &rs::Fields, room: TypeRoom<'_>) -> Result<Arc<[Field]>> {
    let room = room.deeper()?;
    fields.iter().map(|field| nested_field_from(field, room)).collect()
}

fn nested_type_from(data_type: &rs::DataType, room: TypeRoom<'_>) -> Result<DataType> {
    let item = |field: &rs::Field| -> Result<Arc<Field>> {
        nested_field_from(field, room.deeper()?).map(Arc::new)
    };
    Ok(match data_type {
        rs::DataType::Null => DataType::Null,
        rs::DataType::Boolean => DataType::Boolean,
        rs::DataType::Int8 => DataType::Int8,
        rs::DataType::Int16 => DataType::Int16,
        rs::DataType::Int32 => DataType::Int32,
        rs::DataType::Int64 => DataType::Int64,
        rs::DataType::UInt8 => DataType::UInt8,
        rs::DataType::UInt16 => DataType::UInt16,
        rs::DataType::UInt32 => DataType::UInt32,
        rs::DataType::UInt64 => DataType::UInt64,
        rs::DataType::Float16 => DataType::Float16,
        rs::DataType::Float32 => DataType::Float32,
        rs::DataType::Float64 => DataType::Float64,
        rs::DataType::Decimal32(precision, scale) => {
            DataType::Decimal32 { precision: *precision, scale: (*scale).into() }
        }
        rs::DataType::Decimal64(precision, scale) => {
            DataType::Decimal64 { precision: *precision, scale: (*scale).into() }
        }
        rs::DataType::Decimal128(precision, scale) => {
            DataType::Decimal128 { precision: *precision, scale: (*scale).into() }
        }
        rs::DataType::Decimal256(precision, scale) => {
            DataType::Decimal256 { precision: *precision, scale: (*scale).into() }
        }
        rs::DataType::Date32 => DataType::Date32,
        rs::DataType::Date64 => DataType::Date64,
        rs::DataType::Time32(unit) => DataType::Time32(unit_from(*unit)),
        rs::DataType::Time64(unit) => DataType::Time64(unit_from(*unit)),
        rs::DataType::Timestamp(unit, zone) => {
            room.take_text(zone.as_deref().map_or(0, str::len))?;
            DataType::Timestamp(unit_from(*unit), zone.as_deref().map(Into::into))
        }
        rs::DataType::Duration(unit) => DataType::Duration(unit_from(*unit)),
        rs::DataType::Interval(rs::IntervalUnit::YearMonth) => {
            DataType::Interval(IntervalUnit::YearMonth)
        }
        rs::DataType::Interval(rs::IntervalUnit::DayTime) => {
            DataType::Interval(IntervalUnit::DayTime)
        }
        rs::DataType::Interval(rs::IntervalUnit::MonthDayNano) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        rs::DataType::Binary => DataType::Binary,
        rs::DataType::LargeBinary => DataType::LargeBinary,
        rs::DataType::BinaryView => DataType::BinaryView,
        rs::DataType::Utf8 => DataType::Utf8,
        rs::DataType::LargeUtf8 => DataType::LargeUtf8,
        rs::DataType::Utf8View => DataType::Utf8View,
        rs::DataType::FixedSizeBinary(size) => DataType::FixedSizeBinary(*size),
        rs::DataType::List(field) => DataType::List(item(field)?),
        rs::DataType::LargeList(field) => DataType::LargeList(item(field)?),
        rs::DataType::ListView(field) => DataType::ListView(item(field)?),
        rs::DataType::LargeListView(field) => DataType::LargeListView(item(field)?),
        rs::DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field)?, *size),
        rs::DataType::Struct(fields) => DataType::Struct(fields_from(fields, room)?),
        rs::DataType::Map(entries, keys_sorted) => {
            DataType::Map { entries: item(entries)?, keys_sorted: *keys_sorted }
        }
        rs::DataType::Union(members, mode) => {
            let room = room.deeper()?;
            let fields = members.iter().map(|(_, field)| nested_field_from(field, room));
            DataType::Union {
                mode: match mode {
                    rs::UnionMode::Sparse => UnionMode::Sparse,
                    rs::UnionMode::Dense => UnionMode::Dense,
                },
                type_ids: members.iter().map(|(id, _)| id).collect(),
                fields: fields.collect::<Result<_>>()?,
            }
        }
        rs::DataType::Dictionary(index, values) => DataType::dictionary(
            IndexType::try_from(&nested_type_from(index, TypeRoom { levels: 0, ..room })?)?,
            nested_type_from(values, room.deeper()?)?,
        ),
        rs::DataType::RunEndEncoded(run_ends, values) => {
            DataType::RunEndEncoded { run_ends: item(run_ends)?, values: item(values)? }
        }
    })
}

fn unit_from(unit: rs::TimeUnit) -> TimeUnit {
    match unit {
        rs::TimeUnit::Second => TimeUnit::Second,
        rs::TimeUnit::Millisecond => TimeUnit::Millisecond,
        rs::TimeUnit::Microsecond => TimeUnit::Microsecond,
        rs::TimeUnit::Nanosecond => TimeUnit::Nanosecond,
    }
}

/// Returns the pairs in the order of their keys, because arrow-rs keeps no order.
fn metadata_from<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> Result<Metadata> {
    let sorted: BTreeMap<&String, &String> = pairs.collect();
    if sorted.is_empty() {
        return Ok(Metadata::EMPTY);
    }
    Metadata::from_pairs(sorted)
}

/// Whether arrays of one type can be taken as arrays of the other. Names, nullability and metadata
/// may differ.
pub(super) fn is_laid_out_as(ours: &DataType, theirs: &rs::DataType) -> bool {
    let are_alike = |fields: &[Field], others: &rs::Fields| {
        fields.len() == others.len()
            && fields
                .iter()
                .zip(others)
                .all(|(field, other)| is_laid_out_as(field.data_type(), other.data_type()))
    };
    let is_item =
        |field: &Field, other: &rs::Field| is_laid_out_as(field.data_type(), other.data_type());
    match (ours, theirs) {
        (DataType::List(field), rs::DataType::List(other))
        | (DataType::LargeList(field), rs::DataType::LargeList(other))
        | (DataType::ListView(field), rs::DataType::ListView(other))
        | (DataType::LargeListView(field), rs::DataType::LargeListView(other))
        | (DataType::Map { entries: field, .. }, rs::DataType::Map(other, _)) => {
            is_item(field, other)
        }
        (DataType::FixedSizeList(field, size), rs::DataType::FixedSizeList(other, other_size)) => {
            size == other_size && is_item(field, other)
        }
        (DataType::Struct(fields), rs::DataType::Struct(others)) => are_alike(fields, others),
        (DataType::Union { mode, type_ids, fields }, rs::DataType::Union(others, other_mode)) => {
            (*mode == UnionMode::Dense) == (*other_mode == rs::UnionMode::Dense)
                && type_ids.iter().copied().eq(others.iter().map(|(id, _)| id))
                && fields.iter().zip(others.iter()).all(|(field, (_, other))| is_item(field, other))
        }
        (DataType::Dictionary { index, values, .. }, rs::DataType::Dictionary(key, value)) => {
            is_laid_out_as(index.data_type(), key) && is_laid_out_as(values.data_type(), value)
        }
        (
            DataType::RunEndEncoded { run_ends, values },
            rs::DataType::RunEndEncoded(other_ends, other_values),
        ) => is_item(run_ends, other_ends) && is_item(values, other_values),
        (DataType::Timestamp(unit, zone), rs::DataType::Timestamp(other, other_zone)) => {
            *unit == unit_from(*other) && zone.as_deref() == other_zone.as_deref()
        }
        // A nested type that none of the arms above accepts is of another kind.
        _ => !theirs.is_nested() && data_type_from(theirs).is_ok_and(|theirs| theirs == *ours),
    }
}

/// A name of ours that is not that of arrow-rs.
pub(super) struct OtherName<'t> {
    ours: &'t str,
    theirs: &'t str,
    /// The steps to the field, of which the last one comes first.
    steps: Vec<Step>,
}

impl OtherName<'_> {
    /// Makes the error for an array of arrow-rs that is to have our name.
    #[cold]
    pub(super) fn refusal_from_arrow(&self) -> Error {
        self.refused(self.theirs, self.ours).during("from_arrow")
    }

    /// Makes the error for an array of ours that is to have the name of arrow-rs.
    #[cold]
    pub(super) fn refusal_to_arrow(&self) -> Error {
        self.refused(self.ours, self.theirs).during("to_arrow")
    }

    fn refused(&self, given: &str, expected: &str) -> Error {
        let [given, expected] = [given, expected].map(beginning);
        let message = format!("the column is named {given:?}, not {expected:?}");
        let place = NodePath::new(self.steps.iter().rev().copied());
        Error::new(ErrorKind::SchemaMismatch, message).at(place)
    }
}

/// Returns as much of a name as an error tells.
fn beginning(name: &str) -> &str {
    const MOST_TOLD: usize = 200;
    name.char_indices().nth(MOST_TOLD).map_or(name, |(end, _)| name.get(..end).unwrap_or(name))
}

/// Finds the first of these columns that has another name, or that has one in its type: see
/// [`other_name`].
pub(super) fn other_column<'t>(ours: &'t [Field], theirs: &'t rs::Fields) -> Option<OtherName<'t>> {
    other_field(ours, theirs.iter().map(|field| &**field))
}

fn other_field<'t>(
    ours: &'t [Field],
    theirs: impl Iterator<Item = &'t rs::Field>,
) -> Option<OtherName<'t>> {
    ours.iter().zip(theirs).enumerate().find_map(|(index, (field, other))| {
        if field.name() != other.name() {
            let (ours, theirs) = (field.name(), other.name().as_str());
            return Some(OtherName { ours, theirs, steps: vec![Step::Child(index)] });
        }
        under(Step::Child(index), field.data_type(), other.data_type())
    })
}

/// Finds the first name in which two types differ that are laid out alike. The names that count are
/// those of the fields of structs and of the members of unions, also inside of other types. The
/// fields of lists, maps and runs have names that libraries choose, and these do not count.
pub(super) fn other_name<'t>(
    ours: &'t DataType,
    theirs: &'t rs::DataType,
) -> Option<OtherName<'t>> {
    let child = |index, field: &'t Field, other: &'t rs::Field| {
        under(Step::Child(index), field.data_type(), other.data_type())
    };
    match (ours, theirs) {
        (DataType::List(field), rs::DataType::List(other))
        | (DataType::LargeList(field), rs::DataType::LargeList(other))
        | (DataType::ListView(field), rs::DataType::ListView(other))
        | (DataType::LargeListView(field), rs::DataType::LargeListView(other))
        | (DataType::FixedSizeList(field, _), rs::DataType::FixedSizeList(other, _)) => {
            child(0, field, other)
        }
        (DataType::Map { entries, .. }, rs::DataType::Map(others, _)) => {
            let rs::DataType::Struct(others) = others.data_type() else { return None };
            let pairs = entries.data_type().children().zip(others).enumerate();
            let mut found =
                { pairs }.find_map(|(index, (field, other))| child(index, field, other))?;
            found.steps.push(Step::Child(0));
            Some(found)
        }
        (DataType::Struct(fields), rs::DataType::Struct(others)) => other_column(fields, others),
        (DataType::Union { fields, .. }, rs::DataType::Union(others, _)) => {
            other_field(fields, others.iter().map(|(_, other)| &**other))
        }
        (DataType::Dictionary { values, .. }, rs::DataType::Dictionary(_, others)) => {
            under(Step::Dictionary, values.data_type(), others)
        }
        (DataType::RunEndEncoded { values, .. }, rs::DataType::RunEndEncoded(_, others)) => {
            child(1, values, others)
        }
        _ => None,
    }
}

/// Whether the nullability of all fields, the order of dictionaries and that of the keys of maps
/// are equal in two types that are laid out alike.
pub(super) fn have_same_flags(one: &DataType, other: &DataType) -> bool {
    let is_ordered = |data_type: &DataType| match data_type {
        DataType::Map { keys_sorted: ordered, .. } | DataType::Dictionary { ordered, .. } => {
            *ordered
        }
        _ => false,
    };
    let fields = one.children().chain(one.dictionary_values());
    let others = other.children().chain(other.dictionary_values());
    is_ordered(one) == is_ordered(other)
        && fields.zip(others).all(|(field, other)| {
            field.is_nullable() == other.is_nullable()
                && have_same_flags(field.data_type(), other.data_type())
        })
}

/// Finds the first name in which the types one step below differ.
fn under<'t>(step: Step, ours: &'t DataType, theirs: &'t rs::DataType) -> Option<OtherName<'t>> {
    let mut found = other_name(ours, theirs)?;
    found.steps.push(step);
    Some(found)
}

// ------------------------------------------------------------------------------------------------
// to arrow-rs

pub(super) fn schema_to(schema: &Schema) -> Result<rs::Schema> {
    let DataType::Struct(columns) = schema.data_type() else {
        let message =
            format!("the schema of a record batch is a struct, and not {}", schema.data_type());
        return Err(Error::new(ErrorKind::SchemaMismatch, message).during("to_arrow"));
    };
    let fields = fields_to(columns)?;
    Ok(rs::Schema::new_with_metadata(fields, metadata_to(schema.metadata())?))
}

pub(super) fn field_to(field: &Field) -> Result<rs::Field> {
    let data_type = data_type_to(field.data_type())?;
    let ordered = matches!(field.data_type(), DataType::Dictionary { ordered: true, .. });
    Ok(rs::Field::new(field.name(), data_type, field.is_nullable())
        .with_dict_is_ordered(ordered)
        .with_metadata(metadata_to(field.metadata())?))
}

fn fields_to(fields: &[Field]) -> Result<rs::Fields> {
    fields.iter().map(field_to).collect()
}

pub(super) fn data_type_to(data_type: &DataType) -> Result<rs::DataType> {
    let item = |field: &Field| field_to(field).map(Arc::new);
    Ok(match data_type {
        DataType::Null => rs::DataType::Null,
        DataType::Boolean => rs::DataType::Boolean,
        DataType::Int8 => rs::DataType::Int8,
        DataType::Int16 => rs::DataType::Int16,
        DataType::Int32 => rs::DataType::Int32,
        DataType::Int64 => rs::DataType::Int64,
        DataType::UInt8 => rs::DataType::UInt8,
        DataType::UInt16 => rs::DataType::UInt16,
        DataType::UInt32 => rs::DataType::UInt32,
        DataType::UInt64 => rs::DataType::UInt64,
        DataType::Float16 => rs::DataType::Float16,
        DataType::Float32 => rs::DataType::Float32,
        DataType::Float64 => rs::DataType::Float64,
        DataType::Decimal32 { precision, scale } => {
            rs::DataType::Decimal32(*precision, scale_to(*scale)?)
        }
        DataType::Decimal64 { precision, scale } => {
            rs::DataType::Decimal64(*precision, scale_to(*scale)?)
        }
        DataType::Decimal128 { precision, scale } => {
            rs::DataType::Decimal128(*precision, scale_to(*scale)?)
        }
        DataType::Decimal256 { precision, scale } => {
            rs::DataType::Decimal256(*precision, scale_to(*scale)?)
        }
        DataType::Date32 => rs::DataType::Date32,
        DataType::Date64 => rs::DataType::Date64,
        DataType::Time32(unit) => rs::DataType::Time32(unit_to(*unit)),
        DataType::Time64(unit) => rs::DataType::Time64(unit_to(*unit)),
        DataType::Timestamp(unit, zone) => {
            rs::DataType::Timestamp(unit_to(*unit), zone.as_deref().map(Into::into))
        }
        DataType::Duration(unit) => rs::DataType::Duration(unit_to(*unit)),
        DataType::Interval(IntervalUnit::YearMonth) => {
            rs::DataType::Interval(rs::IntervalUnit::YearMonth)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            rs::DataType::Interval(rs::IntervalUnit::DayTime)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            rs::DataType::Interval(rs::IntervalUnit::MonthDayNano)
        }
        DataType::Binary => rs::DataType::Binary,
        DataType::LargeBinary => rs::DataType::LargeBinary,
        DataType::BinaryView => rs::DataType::BinaryView,
        DataType::Utf8 => rs::DataType::Utf8,
        DataType::LargeUtf8 => rs::DataType::LargeUtf8,
        DataType::Utf8View => rs::DataType::Utf8View,
        DataType::FixedSizeBinary(size) => rs::DataType::FixedSizeBinary(*size),
        DataType::List(field) => rs::DataType::List(item(field)?),
        DataType::LargeList(field) => rs::DataType::LargeList(item(field)?),
        DataType::ListView(field) => rs::DataType::ListView(item(field)?),
        DataType::LargeListView(field) => rs::DataType::LargeListView(item(field)?),
        DataType::FixedSizeList(field, size) => rs::DataType::FixedSizeList(item(field)?, *size),
        DataType::Struct(fields) => rs::DataType::Struct(fields_to(fields)?),
        DataType::Map { entries, keys_sorted } => rs::DataType::Map(item(entries)?, *keys_sorted),
        DataType::Union { mode, type_ids, fields } => {
            let members = type_ids.iter().zip(&**fields);
            let members = members.map(|(id, field)| Ok((*id, item(field)?)));
            let mode = match mode {
                UnionMode::Sparse => rs::UnionMode::Sparse,
                UnionMode::Dense => rs::UnionMode::Dense,
            };
            rs::DataType::Union(members.collect::<Result<_>>()?, mode)
        }
        DataType::Dictionary { index, values, .. } => {
            let index = data_type_to(index.data_type())?;
            rs::DataType::Dictionary(Box::new(index), Box::new(dictionary_values_to(values)?))
        }
        DataType::RunEndEncoded { run_ends, values } => {
            rs::DataType::RunEndEncoded(item(run_ends)?, item(values)?)
        }
        other => return Err(missing(format!("arrow-rs has no type {other}"))),
    })
}

/// Returns the type of a dictionary's values, which have nothing but a type in arrow-rs.
fn dictionary_values_to(values: &Field) -> Result<rs::DataType> {
    if !values.metadata().is_empty() {
        let message = format!(
            "the values of a dictionary have metadata, {}, and arrow-rs has no place for it",
            values.metadata()
        );
        return Err(missing(message));
    }
    if matches!(values.data_type(), DataType::Dictionary { ordered: true, .. }) {
        return Err(missing(
            "a dictionary of an ordered dictionary, whose order arrow-rs has no place for".into(),
        ));
    }
    data_type_to(values.data_type())
}

fn scale_to(scale: i32) -> Result<i8> {
    i8::try_from(scale).map_err(|_| {
        missing(format!("a decimal of scale {scale}, and arrow-rs ends at -128 and 127"))
    })
}

fn unit_to(unit: TimeUnit) -> rs::TimeUnit {
    match unit {
        TimeUnit::Second => rs::TimeUnit::Second,
        TimeUnit::Millisecond => rs::TimeUnit::Millisecond,
        TimeUnit::Microsecond => rs::TimeUnit::Microsecond,
        TimeUnit::Nanosecond => rs::TimeUnit::Nanosecond,
    }
}

fn metadata_to(metadata: &Metadata) -> Result<HashMap<String, String>> {
    let mut pairs = HashMap::with_capacity(metadata.len());
    for (key, value) in metadata {
        let (Ok(key), Ok(value)) = (std::str::from_utf8(key), std::str::from_utf8(value)) else {
            return Err(missing(format!("metadata that is not UTF-8: {metadata}")));
        };
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(missing(format!("two pairs of metadata with the key {key:?}")));
        }
    }
    Ok(pairs)
}

/// Makes the error for what arrow-rs cannot express.
fn missing(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message).during("to_arrow")
}
