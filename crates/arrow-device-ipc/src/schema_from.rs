//! Reads the schema of a stream or a file.

use std::sync::Arc;

use arrow_device::{
    DataType, Field, IndexType, IntervalUnit, Metadata, Result, Schema, TimeUnit, UnionMode,
};
use arrow_ipc as fb;

use crate::problem::{in_what_came, limited, malformed, unsupported};
use crate::shape::{MOST_FIELDS, Shape};

type KnownPairs<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<fb::KeyValue<'a>>>;

/// Returns the columns of a schema, and the schema's own metadata.
pub(crate) fn columns(schema: fb::Schema<'_>) -> Result<(Vec<Shape>, Metadata)> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err(unsupported(
            "the data has the byte order of another kind of machine; whoever writes it can write it in the order of this one",
        ));
    }
    let fields = schema.fields().into_iter().flatten();
    let mut left = Left::of_header(schema._tab.buf().len());
    fields.clone().try_for_each(|field| left.take(field, 1))?;
    let columns = fields.map(shape).collect::<Result<_>>()?;
    Ok((columns, metadata(schema.custom_metadata())?))
}

/// How many fields and how much text may still be made from a header. Tables of a header may share
/// what is below them, and texts too, so that a few hundred bytes can stand for any number of
/// fields. So fields and texts are counted before anything is made of them.
struct Left {
    /// How many fields may still come. A field counts once for itself and once for each field
    /// around it, whose schema repeats it.
    fields: usize,
    /// How many bytes of names and metadata may still come.
    text: usize,
}

const MOST_SHARED_TEXT: usize = 16 << 20;

impl Left {
    fn of_header(len: usize) -> Self {
        Self { fields: MOST_FIELDS, text: MOST_SHARED_TEXT.max(len) }
    }

    /// Counts a field on this level, and all that is below it. The outermost field has level 1.
    fn take(&mut self, field: fb::Field<'_>, level: usize) -> Result<()> {
        let too_much = |what: &str, most: usize| {
            limited(format!("the header of a schema stands for more than {most} {what}"))
        };
        let fields = self.fields.checked_sub(level);
        self.fields = fields.ok_or_else(|| too_much("fields", MOST_FIELDS))?;
        let len = |text: Option<&str>| text.map_or(0, str::len);
        let pairs = field.custom_metadata().into_iter().flatten();
        let pairs = pairs.map(|pair| len(pair.key()) + len(pair.value()));
        let zone = field.type_as_timestamp().map_or(0, |timestamp| len(timestamp.timezone()));
        let text = pairs.fold(len(field.name()) + zone, usize::saturating_add);
        // The schemas of the fields around this field repeat its text too.
        let text = self.text.checked_sub(text.saturating_mul(level));
        self.text = text.ok_or_else(|| too_much("bytes of text", MOST_SHARED_TEXT))?;
        let mut children = field.children().into_iter().flatten();
        children.try_for_each(|child| self.take(child, level + 1))
    }
}

/// Returns the schema of batches with these columns.
pub(crate) fn batch_schema<'a>(
    columns: impl IntoIterator<Item = &'a Shape>,
    metadata: Metadata,
) -> Result<Schema> {
    let fields = DataType::struct_(columns.into_iter().map(|column| column.field().clone()));
    Schema::new(Field::new("", fields, false).with_metadata(metadata)).map_err(in_what_came)
}

pub(crate) fn metadata(pairs: Option<KnownPairs<'_>>) -> Result<Metadata> {
    let Some(pairs) = pairs else { return Ok(Metadata::EMPTY) };
    let pair = |pair: fb::KeyValue<'_>| {
        (pair.key().unwrap_or_default().to_owned(), pair.value().unwrap_or_default().to_owned())
    };
    Metadata::from_pairs(pairs.iter().map(pair))
}

fn shape(field: fb::Field<'_>) -> Result<Shape> {
    let name = field.name().unwrap_or_default();
    if name.contains('\0') {
        return Err(unsupported(format!("C cannot carry the NUL byte of the name {name:?}")));
    }
    let children = field.children().into_iter().flatten();
    let children: Vec<Shape> = children.map(shape).collect::<Result<_>>()?;
    let data_type = data_type(field, &children)?;
    let metadata = metadata(field.custom_metadata())?;
    let named = |data_type| Field::new(name, data_type, field.nullable()).with_metadata(metadata);
    let Some(encoding) = field.dictionary() else {
        return Ok(Shape::plain(named(data_type), children));
    };
    if encoding.dictionaryKind() != fb::DictionaryKind::DenseArray {
        return Err(unsupported(format!("the dictionary of `{name}` is of an unknown kind")));
    }
    // The specification says where the type is missing: "the type of the indices is assumed to be
    // int32".
    let index = encoding.indexType().map_or(Ok(IndexType::Int32), integer)?;
    let mut encoded = DataType::dictionary(index, data_type);
    let DataType::Dictionary { values, ordered, .. } = &mut encoded else {
        return Err(malformed("a dictionary is none"));
    };
    *ordered = encoding.isOrdered();
    let values = Shape::plain(Field::clone(values), children);
    Ok(Shape::dictionary(named(encoded), encoding.id(), values))
}

fn integer(int: fb::Int<'_>) -> Result<IndexType> {
    Ok(match (int.bitWidth(), int.is_signed()) {
        (8, true) => IndexType::Int8,
        (16, true) => IndexType::Int16,
        (32, true) => IndexType::Int32,
        (64, true) => IndexType::Int64,
        (8, false) => IndexType::UInt8,
        (16, false) => IndexType::UInt16,
        (32, false) => IndexType::UInt32,
        (64, false) => IndexType::UInt64,
        (bits, _) => return Err(malformed(format!("there are no integers of {bits} bits"))),
    })
}

fn data_type(field: fb::Field<'_>, children: &[Shape]) -> Result<DataType> {
    let name = field.name().unwrap_or_default();
    let missing = || malformed(format!("the type of `{name}` is not there"));
    let found = match field.type_type() {
        fb::Type::Null => DataType::Null,
        fb::Type::Bool => DataType::Boolean,
        fb::Type::Int => integer(field.type_as_int().ok_or_else(missing)?)?.into(),
        fb::Type::FloatingPoint => {
            match field.type_as_floating_point().ok_or_else(missing)?.precision() {
                fb::Precision::HALF => DataType::Float16,
                fb::Precision::SINGLE => DataType::Float32,
                fb::Precision::DOUBLE => DataType::Float64,
                other => return Err(malformed(format!("`{name}` has precision {}", other.0))),
            }
        }
        fb::Type::Decimal => decimal(field.type_as_decimal().ok_or_else(missing)?)?,
        fb::Type::Date => match field.type_as_date().ok_or_else(missing)?.unit() {
            fb::DateUnit::DAY => DataType::Date32,
            fb::DateUnit::MILLISECOND => DataType::Date64,
            other => return Err(malformed(format!("`{name}` has date unit {}", other.0))),
        },
        fb::Type::Time => {
            let time = field.type_as_time().ok_or_else(missing)?;
            match (time.bitWidth(), unit(time.unit())?) {
                (32, unit @ (TimeUnit::Second | TimeUnit::Millisecond)) => DataType::Time32(unit),
                (64, unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond)) => {
                    DataType::Time64(unit)
                }
                (bits, unit) => {
                    return Err(malformed(format!("`{name}` is a time of {bits} bits in {unit}")));
                }
            }
        }
        fb::Type::Timestamp => {
            let timestamp = field.type_as_timestamp().ok_or_else(missing)?;
            let zone = timestamp.timezone().filter(|zone| !zone.is_empty());
            DataType::Timestamp(unit(timestamp.unit())?, zone.map(Into::into))
        }
        fb::Type::Duration => {
            DataType::Duration(unit(field.type_as_duration().ok_or_else(missing)?.unit())?)
        }
        fb::Type::Interval => {
            DataType::Interval(match field.type_as_interval().ok_or_else(missing)?.unit() {
                fb::IntervalUnit::YEAR_MONTH => IntervalUnit::YearMonth,
                fb::IntervalUnit::DAY_TIME => IntervalUnit::DayTime,
                fb::IntervalUnit::MONTH_DAY_NANO => IntervalUnit::MonthDayNano,
                other => return Err(malformed(format!("`{name}` has interval unit {}", other.0))),
            })
        }
        fb::Type::Binary => DataType::Binary,
        fb::Type::LargeBinary => DataType::LargeBinary,
        fb::Type::BinaryView => DataType::BinaryView,
        fb::Type::Utf8 => DataType::Utf8,
        fb::Type::LargeUtf8 => DataType::LargeUtf8,
        fb::Type::Utf8View => DataType::Utf8View,
        fb::Type::FixedSizeBinary => DataType::FixedSizeBinary(
            field.type_as_fixed_size_binary().ok_or_else(missing)?.byteWidth(),
        ),
        fb::Type::List => DataType::List(only(name, children)?),
        fb::Type::LargeList => DataType::LargeList(only(name, children)?),
        fb::Type::ListView => DataType::ListView(only(name, children)?),
        fb::Type::LargeListView => DataType::LargeListView(only(name, children)?),
        fb::Type::FixedSizeList => {
            let size = field.type_as_fixed_size_list().ok_or_else(missing)?.listSize();
            DataType::FixedSizeList(only(name, children)?, size)
        }
        fb::Type::Map => DataType::Map {
            entries: only(name, children)?,
            keys_sorted: field.type_as_map().ok_or_else(missing)?.keysSorted(),
        },
        fb::Type::Struct_ => DataType::Struct(fields(children)),
        fb::Type::Union => union(field.type_as_union().ok_or_else(missing)?, children)?,
        fb::Type::RunEndEncoded => {
            let [run_ends, values] = children else { return Err(child_count(name, children, 2)) };
            let [run_ends, values] =
                [run_ends, values].map(|child| Arc::new(child.field().clone()));
            DataType::RunEndEncoded { run_ends, values }
        }
        other => {
            return Err(unsupported(format!(
                "`{name}` has a type of the unknown number {}",
                other.0
            )));
        }
    };
    if !found.is_nested() && !children.is_empty() {
        return Err(child_count(name, children, 0));
    }
    Ok(found)
}

fn decimal(decimal: fb::Decimal<'_>) -> Result<DataType> {
    let (digits, scale) = (decimal.precision(), decimal.scale());
    let precision = u8::try_from(digits)
        .map_err(|_| malformed(format!("there are no decimals of {digits} digits")))?;
    Ok(match decimal.bitWidth() {
        32 => DataType::Decimal32 { precision, scale },
        64 => DataType::Decimal64 { precision, scale },
        128 => DataType::Decimal128 { precision, scale },
        256 => DataType::Decimal256 { precision, scale },
        bits => return Err(malformed(format!("there are no decimals of {bits} bits"))),
    })
}

fn unit(unit: fb::TimeUnit) -> Result<TimeUnit> {
    Ok(match unit {
        fb::TimeUnit::SECOND => TimeUnit::Second,
        fb::TimeUnit::MILLISECOND => TimeUnit::Millisecond,
        fb::TimeUnit::MICROSECOND => TimeUnit::Microsecond,
        fb::TimeUnit::NANOSECOND => TimeUnit::Nanosecond,
        other => return Err(malformed(format!("there is no unit of time {}", other.0))),
    })
}

fn fields(children: &[Shape]) -> Arc<[Field]> {
    children.iter().map(|child| child.field().clone()).collect()
}

fn only(name: &str, children: &[Shape]) -> Result<Arc<Field>> {
    match children {
        [child] => Ok(Arc::new(child.field().clone())),
        _ => Err(child_count(name, children, 1)),
    }
}

#[cold]
fn child_count(name: &str, children: &[Shape], expected: usize) -> arrow_device::Error {
    malformed(format!("`{name}` has {} children, and its type {expected}", children.len()))
}

fn union(union: fb::Union<'_>, children: &[Shape]) -> Result<DataType> {
    let mode = match union.mode() {
        fb::UnionMode::Sparse => UnionMode::Sparse,
        fb::UnionMode::Dense => UnionMode::Dense,
        other => return Err(malformed(format!("there is no kind of union {}", other.0))),
    };
    let type_ids: Arc<[i8]> = match union.typeIds() {
        Some(ids) => {
            let id = |id: i32| {
                i8::try_from(id).map_err(|_| malformed(format!("a union has the type id {id}")))
            };
            ids.iter().map(id).collect::<Result<_>>()?
        }
        None => (0..=i8::MAX).take(children.len()).collect(),
    };
    if type_ids.len() != children.len() {
        let message =
            format!("a union has {} type ids and {} fields", type_ids.len(), children.len());
        return Err(malformed(message));
    }
    Ok(DataType::Union { mode, type_ids, fields: fields(children) })
}
