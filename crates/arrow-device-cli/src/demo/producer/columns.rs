//! The columns of the demonstration: one of every kind of type.

use arrow_device::{Array, DataType, Field, IndexType, IntervalUnit, Result, TimeUnit, UnionMode};

/// All columns, with the fields that they have in the batch.
pub(super) fn all() -> Result<Vec<(Field, Array)>> {
    let mut columns =
        vec![named("id", Array::from_values(DataType::Int64, (1..=5_i64).map(Some))?)];
    columns.extend(scalars()?);
    columns.extend(nested()?);
    columns.extend(encoded()?);
    Ok(columns)
}

/// Lists of text.
pub(super) fn tags() -> Result<Array> {
    let words = ["red", "round", "new", "heavy", "blue", "used"].map(Some);
    let words = Array::from_texts(DataType::Utf8, words)?;
    let lengths = [Some(2), Some(1), None, Some(0), Some(3)];
    Array::from_lists(DataType::list(DataType::Utf8), lengths, words)
}

fn named(name: &str, array: Array) -> (Field, Array) {
    (Field::new(name, array.data_type().clone(), true), array)
}

fn scalars() -> Result<Vec<(Field, Array)>> {
    let names = ["Ada Lovelace", "Emmy", "", "Grace Brewster Murray Hopper"].map(Some);
    let price = DataType::Decimal128 { precision: 9, scale: 2 };
    let seen = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Zurich".into()));
    let seen_at = 1_709_164_800_000_000_i64;
    let age = DataType::Interval(IntervalUnit::MonthDayNano);
    let tokens: Vec<Option<[u8; 16]>> = (1..=5_u8).map(|byte| Some([byte; 16])).collect();
    let token = Array::from_bytes(DataType::FixedSizeBinary(16), tokens)?;
    let token_field = Field::new("token", token.data_type().clone(), true);
    Ok(vec![
        named("name", Array::from_texts(DataType::Utf8View, names.into_iter().chain([None]))?),
        named(
            "price",
            Array::from_values(price, [Some(1250_i128), Some(-5), None, Some(0), Some(99_999)])?,
        ),
        named(
            "seen",
            Array::from_values(
                seen,
                [0, 1, 2, 3, 4].map(|hour| Some(seen_at + hour * 3_600_000_001)),
            )?,
        ),
        named("day", Array::from_values(DataType::Date32, (19_780..19_785).map(Some))?),
        named(
            "age",
            Array::from_values(
                age,
                [Some((1, 2, 0_i64)), None, Some((0, 0, 5)), Some((14, 0, 0)), Some((0, 1, 0))],
            )?,
        ),
        named(
            "active",
            Array::from_bools([Some(true), Some(false), None, Some(true), Some(true)])?,
        ),
        named(
            "half",
            Array::from_values(
                DataType::Float16,
                [Some(0x3c00_u16), Some(0xc000), None, Some(0x7c00), Some(0x3555)],
            )?,
        ),
        (token_field.with_extension("arrow.uuid", "")?, token),
        named("nothing", Array::nulls(5)?),
    ])
}

fn nested() -> Result<Vec<(Field, Array)>> {
    let coordinates = [1.5_f64, -2.0, 0.0, 48.25, 7.0].map(Some);
    let position = DataType::struct_([
        Field::new("x", DataType::Float64, false),
        Field::new("y", DataType::Float64, false),
    ]);
    let axis = Array::from_values(DataType::Float64, coordinates)?;
    let position =
        Array::from_fields(position, [true, true, false, true, true], [axis.clone(), axis])?;

    let counts = DataType::map(DataType::Utf8, DataType::Int32);
    let entries = counts.child(0).map_or(DataType::Null, |entries| entries.data_type().clone());
    let keys = Array::from_texts(DataType::Utf8, ["a", "b", "a", "c"].map(Some))?;
    let values = Array::from_values(DataType::Int32, [Some(1), Some(2), None, Some(4)])?;
    let entries = Array::from_fields(entries, [true; 4], [keys, values])?;
    let lengths = [Some(2), Some(0), None, Some(1), Some(1)];
    let counts = Array::from_lists(counts, lengths, entries)?;

    let items = Array::from_values(DataType::Int32, (0..10).map(Some))?;
    let pairs = DataType::fixed_size_list(DataType::Int32, 2);
    let pairs =
        Array::from_lists(pairs, [Some(2), None, Some(2), Some(2), Some(2)], items.clone())?;
    let spans = DataType::list_view(DataType::Int32);
    let spans = Array::from_lists(spans, [Some(4), None, Some(0), Some(1), Some(5)], items)?;
    Ok(vec![
        named("tags", tags()?),
        named("position", position),
        named("counts", counts),
        named("pairs", pairs),
        named("spans", spans),
    ])
}

fn encoded() -> Result<Vec<(Field, Array)>> {
    let levels = Array::from_texts(DataType::Utf8, ["low", "high"].map(Some))?;
    let level = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let keys = [Some(1), Some(0), None, Some(0), Some(1)];
    let level = Array::from_keys(level, keys, levels)?;

    let reading = DataType::union(
        UnionMode::Dense,
        [
            Field::new("number", DataType::Float32, true),
            Field::new("remark", DataType::LargeUtf8, true),
        ],
    );
    let numbers = Array::from_values(DataType::Float32, [Some(0.5_f32), Some(1.25), None])?;
    let remarks = Array::from_texts(DataType::LargeUtf8, ["broken", "too hot"].map(Some))?;
    let reading = Array::from_variants(reading, [0, 1, 0, 0, 1], [numbers, remarks])?;

    let states = Array::from_texts(DataType::Utf8, [Some("on"), None, Some("off")])?;
    let state = DataType::run_end_encoded(DataType::Int32, DataType::Utf8);
    let state = Array::from_runs(state, [2, 1, 2], states)?;
    Ok(vec![named("level", level), named("reading", reading), named("state", state)])
}
