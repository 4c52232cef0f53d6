//! Writes the schema of a stream or a file.

use arrow_device::{
    DataType, ErrorKind, Field, IntervalUnit, Metadata, Result, TimeUnit, UnionMode,
};
use arrow_ipc as fb;
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, UnionWIPOffset, Vector, WIPOffset};

use crate::problem::refused;
use crate::shape::{Shape, ShapeKind};

type Builder<'a> = FlatBufferBuilder<'a>;
type WrittenPairs<'a> = WIPOffset<Vector<'a, ForwardsUOffset<fb::KeyValue<'a>>>>;

/// The byte order of this machine.
const ENDIANNESS: fb::Endianness =
    if cfg!(target_endian = "little") { fb::Endianness::Little } else { fb::Endianness::Big };

/// Writes the columns and the schema's own metadata.
pub(crate) fn schema<'a>(
    builder: &mut Builder<'a>,
    columns: &[Shape],
    metadata: &Metadata,
) -> Result<WIPOffset<fb::Schema<'a>>> {
    let fields = columns.iter().map(|column| field(builder, column)).collect::<Result<Vec<_>>>()?;
    let fields = builder.create_vector(&fields);
    let custom_metadata = pairs(builder, metadata)?;
    let args = fb::SchemaArgs {
        endianness: ENDIANNESS,
        fields: Some(fields),
        custom_metadata,
        features: None,
    };
    Ok(fb::Schema::create(builder, &args))
}

/// Writes pairs of texts. Pairs of other bytes are an error, because IPC has no place for them.
pub(crate) fn pairs<'a>(
    builder: &mut Builder<'a>,
    metadata: &Metadata,
) -> Result<Option<WrittenPairs<'a>>> {
    if metadata.is_empty() {
        return Ok(None);
    }
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
            let what = String::from_utf8_lossy(bytes);
            let message = format!("metadata that is no text, which IPC has no place for: {what}");
            refused(ErrorKind::Unsupported, message)
        })
    };
    let mut written = Vec::with_capacity(metadata.len());
    for (key, value) in metadata {
        let (key, value) = (text(key)?, text(value)?);
        let key = Some(builder.create_string(&key));
        let value = Some(builder.create_string(&value));
        written.push(fb::KeyValue::create(builder, &fb::KeyValueArgs { key, value }));
    }
    Ok(Some(builder.create_vector(&written)))
}

fn field<'a>(builder: &mut Builder<'a>, shape: &Shape) -> Result<WIPOffset<fb::Field<'a>>> {
    let described = shape.field();
    // In IPC the type of a column with a dictionary is the type of the values.
    let (below, dictionary) = match (&shape.kind, shape.data_type()) {
        (ShapeKind::Dictionary { id, values }, DataType::Dictionary { index, ordered, .. }) => {
            let index = integer(builder, index.data_type())?;
            let args = fb::DictionaryEncodingArgs {
                id: *id,
                indexType: Some(index),
                isOrdered: *ordered,
                dictionaryKind: fb::DictionaryKind::DenseArray,
            };
            (&**values, Some(fb::DictionaryEncoding::create(builder, &args)))
        }
        _ => (shape, None),
    };
    if dictionary.is_some() && matches!(below.kind, ShapeKind::Dictionary { .. }) {
        let message = "a dictionary of a dictionary, which IPC has no place for";
        return Err(refused(ErrorKind::Unsupported, message));
    }
    if dictionary.is_some() && !below.field().metadata().is_empty() {
        let message = format!(
            "the values of a dictionary have metadata, {}, which IPC has no place for",
            below.field().metadata()
        );
        return Err(refused(ErrorKind::Unsupported, message));
    }
    let ShapeKind::Plain(children) = &below.kind else {
        return Err(refused(ErrorKind::Unsupported, "a dictionary without values"));
    };
    let children =
        children.iter().map(|child| field(builder, child)).collect::<Result<Vec<_>>>()?;
    let children = builder.create_vector(&children);
    let (type_type, type_) = data_type(builder, below.field())?;
    let custom_metadata = pairs(builder, described.metadata())?;
    let name = builder.create_string(described.name());
    let args = fb::FieldArgs {
        name: Some(name),
        nullable: described.is_nullable(),
        type_type,
        type_: Some(type_),
        dictionary,
        children: Some(children),
        custom_metadata,
    };
    Ok(fb::Field::create(builder, &args))
}

fn integer<'a>(builder: &mut Builder<'a>, index: &DataType) -> Result<WIPOffset<fb::Int<'a>>> {
    let (bits, is_signed) = match index {
        DataType::Int8 => (8, true),
        DataType::Int16 => (16, true),
        DataType::Int32 => (32, true),
        DataType::Int64 => (64, true),
        DataType::UInt8 => (8, false),
        DataType::UInt16 => (16, false),
        DataType::UInt32 => (32, false),
        DataType::UInt64 => (64, false),
        other => {
            return Err(refused(ErrorKind::Unsupported, format!("indices that are {other}")));
        }
    };
    Ok(fb::Int::create(builder, &fb::IntArgs { bitWidth: bits, is_signed }))
}

fn unit(unit: TimeUnit) -> fb::TimeUnit {
    match unit {
        TimeUnit::Second => fb::TimeUnit::SECOND,
        TimeUnit::Millisecond => fb::TimeUnit::MILLISECOND,
        TimeUnit::Microsecond => fb::TimeUnit::MICROSECOND,
        TimeUnit::Nanosecond => fb::TimeUnit::NANOSECOND,
    }
}

fn data_type<'a>(
    b: &mut Builder<'a>,
    field: &Field,
) -> Result<(fb::Type, WIPOffset<UnionWIPOffset>)> {
    /// A type without parameters.
    macro_rules! plain {
        ($type:ident, $args:ident) => {
            (fb::Type::$type, fb::$type::create(b, &fb::$args {}).as_union_value())
        };
    }
    let floating = |b: &mut Builder<'a>, precision| {
        let args = fb::FloatingPointArgs { precision };
        (fb::Type::FloatingPoint, fb::FloatingPoint::create(b, &args).as_union_value())
    };
    let decimal = |b: &mut Builder<'a>, bits, precision: u8, scale| {
        let args = fb::DecimalArgs { precision: i32::from(precision), scale, bitWidth: bits };
        (fb::Type::Decimal, fb::Decimal::create(b, &args).as_union_value())
    };
    let time = |b: &mut Builder<'a>, bits, of| {
        let args = fb::TimeArgs { unit: unit(of), bitWidth: bits };
        (fb::Type::Time, fb::Time::create(b, &args).as_union_value())
    };
    Ok(match field.data_type() {
        DataType::Null => plain!(Null, NullArgs),
        DataType::Boolean => plain!(Bool, BoolArgs),
        DataType::Float16 => floating(b, fb::Precision::HALF),
        DataType::Float32 => floating(b, fb::Precision::SINGLE),
        DataType::Float64 => floating(b, fb::Precision::DOUBLE),
        DataType::Decimal32 { precision, scale } => decimal(b, 32, *precision, *scale),
        DataType::Decimal64 { precision, scale } => decimal(b, 64, *precision, *scale),
        DataType::Decimal128 { precision, scale } => decimal(b, 128, *precision, *scale),
        DataType::Decimal256 { precision, scale } => decimal(b, 256, *precision, *scale),
        DataType::Date32 => {
            let args = fb::DateArgs { unit: fb::DateUnit::DAY };
            (fb::Type::Date, fb::Date::create(b, &args).as_union_value())
        }
        DataType::Date64 => {
            let args = fb::DateArgs { unit: fb::DateUnit::MILLISECOND };
            (fb::Type::Date, fb::Date::create(b, &args).as_union_value())
        }
        DataType::Time32(unit) => time(b, 32, *unit),
        DataType::Time64(unit) => time(b, 64, *unit),
        DataType::Timestamp(of, zone) => {
            let timezone = zone.as_ref().map(|zone| b.create_string(zone));
            let args = fb::TimestampArgs { unit: unit(*of), timezone };
            (fb::Type::Timestamp, fb::Timestamp::create(b, &args).as_union_value())
        }
        DataType::Duration(of) => {
            let args = fb::DurationArgs { unit: unit(*of) };
            (fb::Type::Duration, fb::Duration::create(b, &args).as_union_value())
        }
        DataType::Interval(of) => {
            let unit = match of {
                IntervalUnit::YearMonth => fb::IntervalUnit::YEAR_MONTH,
                IntervalUnit::DayTime => fb::IntervalUnit::DAY_TIME,
                IntervalUnit::MonthDayNano => fb::IntervalUnit::MONTH_DAY_NANO,
            };
            let args = fb::IntervalArgs { unit };
            (fb::Type::Interval, fb::Interval::create(b, &args).as_union_value())
        }
        DataType::Binary => plain!(Binary, BinaryArgs),
        DataType::LargeBinary => plain!(LargeBinary, LargeBinaryArgs),
        DataType::BinaryView => plain!(BinaryView, BinaryViewArgs),
        DataType::Utf8 => plain!(Utf8, Utf8Args),
        DataType::LargeUtf8 => plain!(LargeUtf8, LargeUtf8Args),
        DataType::Utf8View => plain!(Utf8View, Utf8ViewArgs),
        DataType::FixedSizeBinary(width) => {
            let args = fb::FixedSizeBinaryArgs { byteWidth: *width };
            (fb::Type::FixedSizeBinary, fb::FixedSizeBinary::create(b, &args).as_union_value())
        }
        DataType::List(_) => plain!(List, ListArgs),
        DataType::LargeList(_) => plain!(LargeList, LargeListArgs),
        DataType::ListView(_) => plain!(ListView, ListViewArgs),
        DataType::LargeListView(_) => plain!(LargeListView, LargeListViewArgs),
        DataType::FixedSizeList(_, size) => {
            let args = fb::FixedSizeListArgs { listSize: *size };
            (fb::Type::FixedSizeList, fb::FixedSizeList::create(b, &args).as_union_value())
        }
        DataType::Struct(_) => plain!(Struct_, Struct_Args),
        DataType::Map { keys_sorted, .. } => {
            let args = fb::MapArgs { keysSorted: *keys_sorted };
            (fb::Type::Map, fb::Map::create(b, &args).as_union_value())
        }
        DataType::Union { mode, type_ids, .. } => {
            let ids: Vec<i32> = type_ids.iter().map(|id| i32::from(*id)).collect();
            let ids = b.create_vector(&ids);
            let mode = match mode {
                UnionMode::Sparse => fb::UnionMode::Sparse,
                UnionMode::Dense => fb::UnionMode::Dense,
            };
            let args = fb::UnionArgs { mode, typeIds: Some(ids) };
            (fb::Type::Union, fb::Union::create(b, &args).as_union_value())
        }
        DataType::RunEndEncoded { .. } => plain!(RunEndEncoded, RunEndEncodedArgs),
        other => (fb::Type::Int, integer(b, other)?.as_union_value()),
    })
}
