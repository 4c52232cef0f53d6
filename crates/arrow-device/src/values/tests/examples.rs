//! An array of every type, and what its elements read as.

use crate::{Array, DataType, Field, IndexType, IntervalUnit, TimeUnit, UnionMode};

/// What an array is built from.
pub(super) struct Example {
    pub(super) array: Array,
    pub(super) texts: Vec<&'static str>,
}

pub(super) fn examples() -> Vec<Example> {
    let all = numbers().into_iter().chain(times()).chain(strings()).chain(nested());
    all.map(|(array, texts)| Example { array, texts }).collect()
}

type Pairs = Vec<(Array, Vec<&'static str>)>;

fn numbers() -> Pairs {
    use DataType::*;
    let of = |data_type, values: [Option<i128>; 3]| Array::from_values(data_type, values).unwrap();
    let mut minus_one = [0xff; 32];
    let mut seven = [0; 32];
    *(if cfg!(target_endian = "big") { seven.last_mut() } else { seven.first_mut() }).unwrap() = 7;
    minus_one.rotate_left(1);
    macro_rules! integers {
        ($($arrow:ident $rust:ident),*) => {
            vec![$((
                Array::from_values($arrow, [Some($rust::MIN), None, Some($rust::MAX)]).unwrap(),
                vec![stringify!($rust), "null", stringify!($rust)],
            )),*]
        };
    }
    let mut all: Pairs = integers!(
        Int8 i8, Int16 i16, Int32 i32, Int64 i64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64
    );
    let extremes = [
        ("-128", "127"),
        ("-32768", "32767"),
        ("-2147483648", "2147483647"),
        ("-9223372036854775808", "9223372036854775807"),
        ("0", "255"),
        ("0", "65535"),
        ("0", "4294967295"),
        ("0", "18446744073709551615"),
    ];
    for ((_, texts), (least, most)) in all.iter_mut().zip(extremes) {
        *texts = vec![least, "null", most];
    }
    all.extend([
        (Array::nulls(3).unwrap(), vec!["null", "null", "null"]),
        (
            Array::from_bools([Some(true), None, Some(false)]).unwrap(),
            vec!["true", "null", "false"],
        ),
        (
            Array::from_values(Float16, [Some(0x3c00_u16), None, Some(0xc000)]).unwrap(),
            vec!["1.0", "null", "-2.0"],
        ),
        (
            Array::from_values(Float32, [Some(0.1_f32), None, Some(-2.0)]).unwrap(),
            vec!["0.1", "null", "-2.0"],
        ),
        (
            Array::from_values(Float64, [Some(0.1_f64), None, Some(f64::NAN)]).unwrap(),
            vec!["0.1", "null", "NaN"],
        ),
        (
            Array::from_values(
                Decimal32 { precision: 4, scale: 2 },
                [Some(-5_i32), None, Some(1250)],
            )
            .unwrap(),
            vec!["-0.05", "null", "12.50"],
        ),
        (
            Array::from_values(
                Decimal64 { precision: 9, scale: -3 },
                [Some(-5_i64), None, Some(12)],
            )
            .unwrap(),
            vec!["-5E3", "null", "12E3"],
        ),
        (
            of(
                Decimal128 { precision: 30, scale: 1 },
                [Some(-15), None, Some(i128::from(u64::MAX))],
            ),
            vec!["-1.5", "null", "1844674407370955161.5"],
        ),
        (
            Array::from_values(
                Decimal256 { precision: 76, scale: 1 },
                [Some(minus_one), None, Some(seven)],
            )
            .unwrap(),
            vec!["-0.1", "null", "0.7"],
        ),
    ]);
    all
}

fn times() -> Pairs {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let of_32 = |data_type, value: i32| {
        Array::from_values(data_type, [None, Some(value), Some(0)]).unwrap()
    };
    let of_64 = |data_type, value: i64| {
        Array::from_values(data_type, [None, Some(value), Some(0)]).unwrap()
    };
    let zone = |zone: &str| Some(zone.into());
    vec![
        (of_32(DataType::Date32, 19_782), vec!["null", "2024-02-29", "1970-01-01"]),
        (of_64(DataType::Date64, -86_400_000), vec!["null", "1969-12-31", "1970-01-01"]),
        (of_32(DataType::Time32(Second), 86_399), vec!["null", "23:59:59", "00:00:00"]),
        (
            of_32(DataType::Time32(Millisecond), 3_723_004),
            vec!["null", "01:02:03.004", "00:00:00.000"],
        ),
        (of_64(DataType::Time64(Microsecond), -5), vec!["null", "-5us", "00:00:00.000000"]),
        (
            of_64(DataType::Time64(Nanosecond), 1),
            vec!["null", "00:00:00.000000001", "00:00:00.000000000"],
        ),
        (
            of_64(DataType::Timestamp(Second, None), -1),
            vec!["null", "1969-12-31T23:59:59", "1970-01-01T00:00:00"],
        ),
        (
            of_64(DataType::Timestamp(Millisecond, zone("UTC")), 1),
            vec!["null", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.000Z"],
        ),
        (
            of_64(DataType::Timestamp(Microsecond, zone("Asia/Tokyo")), 1),
            vec![
                "null",
                "1970-01-01T00:00:00.000001Z[Asia/Tokyo]",
                "1970-01-01T00:00:00.000000Z[Asia/Tokyo]",
            ],
        ),
        (of_64(DataType::Duration(Nanosecond), -9), vec!["null", "-9ns", "0ns"]),
        (
            of_32(DataType::Interval(IntervalUnit::YearMonth), 14),
            vec!["null", "14 months", "0 days"],
        ),
        (
            Array::from_values(
                DataType::Interval(IntervalUnit::DayTime),
                [None, Some((1, 250)), Some((-2, 0))],
            )
            .unwrap(),
            vec!["null", "1 day 250ms", "-2 days"],
        ),
        (
            Array::from_values(
                DataType::Interval(IntervalUnit::MonthDayNano),
                [None, Some((1, 2, 3_i64)), Some((0, 0, -1))],
            )
            .unwrap(),
            vec!["null", "1 month 2 days 3ns", "-1ns"],
        ),
    ]
}

fn strings() -> Pairs {
    use DataType::*;
    let mut all = Pairs::new();
    for data_type in [Utf8, LargeUtf8, Utf8View] {
        let values = [Some("short"), None, Some(""), Some("twelve bytes"), Some("thirteen byte")];
        let more = ["ünïcödé, which takes more than twelve bytes", "x"].map(Some);
        let values = values.into_iter().chain(more);
        all.push((
            Array::from_texts(data_type, values).unwrap(),
            vec![
                "short",
                "null",
                "",
                "twelve bytes",
                "thirteen byte",
                "ünïcödé, which takes more than twelve bytes",
                "x",
            ],
        ));
    }
    for data_type in [Binary, LargeBinary, BinaryView] {
        let values: [Option<&[u8]>; 3] = [Some(b"\x00\xff"), None, Some(b"0123456789abcdef")];
        all.push((
            Array::from_bytes(data_type, values).unwrap(),
            vec!["0x00ff", "null", "0x30313233343536373839616263646566"],
        ));
    }
    all.push((
        Array::from_bytes(FixedSizeBinary(2), [None, Some([1, 2]), Some([3, 4])]).unwrap(),
        vec!["null", "0x0102", "0x0304"],
    ));
    all.push((
        Array::from_bytes(FixedSizeBinary(0), [None, Some([]), Some([])]).unwrap(),
        vec!["null", "0x", "0x"],
    ));
    all
}

fn numbers_from(first: i32, count: i32) -> Array {
    Array::from_values(DataType::Int32, (first..first + count).map(Some)).unwrap()
}

fn words() -> Array {
    Array::from_texts(DataType::Utf8, [Some("zero"), Some("one"), None]).unwrap()
}

fn nested() -> Pairs {
    let mut all = Pairs::new();
    for data_type in
        [DataType::list, DataType::large_list, DataType::list_view, DataType::large_list_view]
    {
        let items = numbers_from(0, 7).slice(1, 5).unwrap();
        let lists =
            Array::from_lists(data_type(DataType::Int32), [Some(2), None, Some(0), Some(3)], items);
        all.push((lists.unwrap(), vec!["[1, 2]", "null", "[]", "[3, 4, 5]"]));
    }
    let pairs = DataType::fixed_size_list(DataType::Int32, 2);
    let pairs = Array::from_lists(pairs, [Some(2), None, Some(2)], numbers_from(0, 6)).unwrap();
    all.push((pairs.clone(), vec!["[0, 1]", "null", "[4, 5]"]));
    all.push((
        Array::from_lists(DataType::list(pairs.data_type().clone()), [Some(1), Some(2)], pairs)
            .unwrap(),
        vec!["[[0, 1]]", "[null, [4, 5]]"],
    ));
    let map = DataType::map(DataType::Utf8, DataType::Int32);
    let entries = map.child(0).unwrap().data_type().clone();
    let keys = Array::from_texts(DataType::Utf8, ["a", "b", "a"].map(Some)).unwrap();
    let entries = Array::from_fields(entries, [true; 3], [keys, numbers_from(1, 3)]).unwrap();
    all.push((
        Array::from_lists(map, [Some(2), None, Some(0), Some(1)], entries).unwrap(),
        vec![r#"{"a": 1, "b": 2}"#, "null", "{}", r#"{"a": 3}"#],
    ));
    let fields = || {
        let number = Field::new("number", DataType::Int32, true);
        [number, Field::new("word", DataType::Utf8, true)]
    };
    let children = || [numbers_from(0, 3), words()];
    all.push((
        Array::from_fields(DataType::struct_(fields()), [true, false, true], children()).unwrap(),
        vec![r#"{number: 0, word: "zero"}"#, "null", "{number: 2, word: null}"],
    ));
    all.push((
        Array::from_fields(DataType::struct_([]), [true, false, true], []).unwrap(),
        vec!["{}", "null", "{}"],
    ));
    for (mode, texts) in [
        (UnionMode::Sparse, vec![r#"word: "zero""#, "number: 1", "word: null"]),
        (UnionMode::Dense, vec![r#"word: "zero""#, "number: 0", r#"word: "one""#]),
    ] {
        let union = DataType::Union { mode, type_ids: [5, 127].into(), fields: fields().into() };
        all.push((Array::from_variants(union, [127, 5, 127], children()).unwrap(), texts));
    }
    for index in IndexType::ALL {
        let dictionary = DataType::dictionary(index, DataType::Utf8);
        all.push((
            Array::from_keys(dictionary, [Some(1), None, Some(2), Some(0)], words()).unwrap(),
            vec!["one", "null", "null", "zero"],
        ));
    }
    for ends in [DataType::Int16, DataType::Int32, DataType::Int64] {
        let runs = DataType::run_end_encoded(ends, DataType::Utf8);
        all.push((
            Array::from_runs(runs, [1, 3, 1], words()).unwrap(),
            vec!["zero", "one", "one", "one", "null"],
        ));
    }
    all
}
