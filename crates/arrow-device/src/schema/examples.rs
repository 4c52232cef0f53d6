//! One example or more of every type, as a format string with what lies beside it and as the type
//! it says. For tests.

use super::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

/// A format string, the children beside it, and the type that both are.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) format: &'static str,
    pub(super) children: Vec<Field>,
    pub(super) data_type: DataType,
}

/// Every format of the C data interface; those with a number or a time zone several times. No
/// dictionaries.
pub(super) fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = leaves()
        .into_iter()
        .map(|(format, data_type)| Example { format, children: Vec::new(), data_type })
        .collect();
    let item = || Field::new("item", DataType::Int16, true);
    let a = || Field::new("a", DataType::Int32, true);
    let b = || Field::new("b", DataType::Utf8, false);
    let DataType::Map { entries, .. } = DataType::map(DataType::Utf8, DataType::Int64) else {
        unreachable!("a map is made by `map`");
    };
    let DataType::RunEndEncoded { run_ends, values } =
        DataType::run_end_encoded(DataType::Int64, DataType::Utf8)
    else {
        unreachable!("run-end encoding is made by `run_end_encoded`");
    };
    let union = |mode, type_ids: &[i8], fields: Vec<Field>| DataType::Union {
        mode,
        type_ids: type_ids.into(),
        fields: fields.into(),
    };
    let (sparse, dense) = (UnionMode::Sparse, UnionMode::Dense);
    let item_list = || vec![item()];
    let nested = [
        ("+l", item_list(), DataType::list(item())),
        ("+L", item_list(), DataType::large_list(item())),
        ("+vl", item_list(), DataType::list_view(item())),
        ("+vL", item_list(), DataType::large_list_view(item())),
        ("+w:0", item_list(), DataType::fixed_size_list(item(), 0)),
        ("+w:3", item_list(), DataType::fixed_size_list(item(), 3)),
        ("+w:2147483647", item_list(), DataType::fixed_size_list(item(), i32::MAX)),
        ("+s", vec![], DataType::struct_([])),
        ("+s", vec![a(), b()], DataType::struct_([a(), b()])),
        ("+m", vec![(*entries).clone()], DataType::map(DataType::Utf8, DataType::Int64)),
        ("+us:", vec![], union(sparse, &[], vec![])),
        ("+ud:", vec![], union(dense, &[], vec![])),
        ("+us:0,1", vec![a(), b()], DataType::union(sparse, [a(), b()])),
        ("+ud:0,1", vec![a(), b()], DataType::union(dense, [a(), b()])),
        ("+us:127,5", vec![a(), b()], union(sparse, &[127, 5], vec![a(), b()])),
        ("+ud:7", vec![b()], union(dense, &[7], vec![b()])),
        (
            "+r",
            vec![(*run_ends).clone(), (*values).clone()],
            DataType::run_end_encoded(DataType::Int64, DataType::Utf8),
        ),
    ];
    examples.extend(nested.map(|(format, children, data_type)| Example {
        format,
        children,
        data_type,
    }));
    examples
}

/// All types without children.
fn leaves() -> Vec<(&'static str, DataType)> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    vec![
        ("n", DataType::Null),
        ("b", DataType::Boolean),
        ("c", DataType::Int8),
        ("C", DataType::UInt8),
        ("s", DataType::Int16),
        ("S", DataType::UInt16),
        ("i", DataType::Int32),
        ("I", DataType::UInt32),
        ("l", DataType::Int64),
        ("L", DataType::UInt64),
        ("e", DataType::Float16),
        ("f", DataType::Float32),
        ("g", DataType::Float64),
        ("z", DataType::Binary),
        ("Z", DataType::LargeBinary),
        ("vz", DataType::BinaryView),
        ("u", DataType::Utf8),
        ("U", DataType::LargeUtf8),
        ("vu", DataType::Utf8View),
        ("d:1,0,32", DataType::Decimal32 { precision: 1, scale: 0 }),
        ("d:9,2,32", DataType::Decimal32 { precision: 9, scale: 2 }),
        ("d:18,-3,64", DataType::Decimal64 { precision: 18, scale: -3 }),
        ("d:19,10", DataType::Decimal128 { precision: 19, scale: 10 }),
        ("d:38,-2147483648", DataType::Decimal128 { precision: 38, scale: i32::MIN }),
        ("d:76,2147483647,256", DataType::Decimal256 { precision: 76, scale: i32::MAX }),
        ("w:0", DataType::FixedSizeBinary(0)),
        ("w:42", DataType::FixedSizeBinary(42)),
        ("w:2147483647", DataType::FixedSizeBinary(i32::MAX)),
        ("tdD", DataType::Date32),
        ("tdm", DataType::Date64),
        ("tts", DataType::Time32(Second)),
        ("ttm", DataType::Time32(Millisecond)),
        ("ttu", DataType::Time64(Microsecond)),
        ("ttn", DataType::Time64(Nanosecond)),
        ("tss:", DataType::Timestamp(Second, None)),
        ("tsm:", DataType::Timestamp(Millisecond, None)),
        ("tsu:", DataType::Timestamp(Microsecond, None)),
        ("tsn:", DataType::Timestamp(Nanosecond, None)),
        ("tss:UTC", DataType::Timestamp(Second, Some("UTC".into()))),
        ("tsm:+05:30", DataType::Timestamp(Millisecond, Some("+05:30".into()))),
        ("tsu:Europe/Paris", DataType::Timestamp(Microsecond, Some("Europe/Paris".into()))),
        ("tsn:Zürich, 上海", DataType::Timestamp(Nanosecond, Some("Zürich, 上海".into()))),
        ("tDs", DataType::Duration(Second)),
        ("tDm", DataType::Duration(Millisecond)),
        ("tDu", DataType::Duration(Microsecond)),
        ("tDn", DataType::Duration(Nanosecond)),
        ("tiM", DataType::Interval(IntervalUnit::YearMonth)),
        ("tiD", DataType::Interval(IntervalUnit::DayTime)),
        ("tin", DataType::Interval(IntervalUnit::MonthDayNano)),
    ]
}
