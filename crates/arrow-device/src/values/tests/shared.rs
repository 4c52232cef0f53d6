//! Arrays that name one value many times: a few bytes that stand for more than anybody can compare.

use std::fmt::Debug;
use std::sync::mpsc;
use std::time::Duration;

use crate::{Array, Batch, Buffer, DataType, ErrorKind, Field, IndexType, UnionMode, Value};

/// What a function returns, if it does so soon. Without an end in sight it fails.
fn soon<T: Send + 'static>(what: &str, function: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(function()));
    receiver.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Two arrays that a function makes of a number are equal where the number is, and not otherwise.
fn assert_compared(what: &str, make: impl Fn(i64) -> Array + Send + 'static) {
    let found = soon(what, move || {
        let equal = |other| make(1).equals(&make(other)).map_err(|error| error.to_string());
        (equal(1), equal(2))
    });
    assert_eq!(found, (Ok(true), Ok(false)), "{what}");
}

fn number(last: i64) -> Array {
    Array::from_values(DataType::Int64, [Some(last)]).unwrap()
}

/// A list of `len` elements.
fn list_of(items: Array) -> Array {
    let (data_type, len) = (DataType::list(items.data_type().clone()), items.len());
    Array::from_lists(data_type, [Some(len)], items).unwrap()
}

fn keys_of_the_first(len: usize, values: Array) -> Array {
    let data_type = DataType::dictionary(IndexType::Int32, values.data_type().clone());
    Array::from_keys(data_type, vec![Some(0_usize); len], values).unwrap()
}

fn variants_of_the_first(len: usize, values: Array) -> Array {
    let field = Field::new("a", values.data_type().clone(), true);
    let buffers = [Some(vec![0_i8; len].into()), Some(vec![0_i32; len].into())];
    let builder = Array::builder(DataType::union(UnionMode::Dense, [field])).len(len);
    builder.buffers(buffers).children([values]).finish_ready().unwrap()
}

/// As many lists as there are elements, each of one of them, all in one run.
fn lists_in_one_run(len: usize, values: Array) -> Array {
    let data_type = DataType::run_end_encoded(DataType::Int32, values.data_type().clone());
    let run = Array::from_runs(data_type, [len], values).unwrap();
    let data_type = DataType::list(run.data_type().clone());
    Array::from_lists(data_type, vec![Some(1); len], run).unwrap()
}

fn fixed_size_lists(size: usize, items: Array) -> Array {
    let data_type = DataType::fixed_size_list(items.data_type().clone(), size as i32);
    Array::from_lists(data_type, vec![Some(size); items.len() / size], items).unwrap()
}

/// List views of these places and sizes.
fn views_of(items: Array, views: &[(i32, i32)]) -> Array {
    let buffers = [
        None,
        Some(views.iter().map(|(start, _)| *start).collect::<Vec<_>>().into()),
        Some(views.iter().map(|(_, size)| *size).collect::<Vec<_>>().into()),
    ];
    let builder = Array::builder(DataType::list_view(items.data_type().clone())).len(views.len());
    builder.buffers(buffers).children([items]).finish_ready().unwrap()
}

/// This many binary views of these lengths into one buffer of as many bytes as the longest has.
fn byte_views(lengths: &[usize], last: u8) -> Array {
    let longest = lengths.iter().max().unwrap();
    let mut data = vec![b'x'; *longest];
    data[longest - 1] = last;
    let views: Vec<u8> = lengths
        .iter()
        .flat_map(|len| {
            let prefix = i32::from_ne_bytes(*b"xxxx");
            [*len as i32, prefix, 0, 0].into_iter().flat_map(i32::to_ne_bytes)
        })
        .collect();
    let buffers = [None, Some(Buffer::from(views)), Some(Buffer::from(data))];
    let builder = Array::builder(DataType::BinaryView).len(lengths.len());
    builder.buffers(buffers).finish_ready().unwrap()
}

// Requirement: SAF-38
#[test]
fn values_that_are_named_on_many_levels_are_compared_once() {
    type Share = fn(usize, Array) -> Array;
    let shares: [(&str, Share); 3] = [
        ("keys", keys_of_the_first),
        ("variants", variants_of_the_first),
        ("runs", lists_in_one_run),
    ];
    for (what, share) in shares {
        assert_compared(what, move |last| {
            (0..6).fold(number(last), |values, _| list_of(share(1000, values)))
        });
    }
    assert_compared("list views", |last| {
        (0..60).fold(list_of(number(last)), |items, _| {
            let len = items.len() as i32;
            views_of(items, &[(0, len), (0, len)])
        })
    });
}

// Requirement: SAF-38
#[test]
fn a_large_value_that_many_elements_share_is_compared_once() {
    const ELEMENTS: usize = 20_000;
    assert_compared("a list", |last| {
        let numbers = (0..ELEMENTS as i64).map(|number| Some(number * last));
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        keys_of_the_first(ELEMENTS, list_of(numbers))
    });
    assert_compared("a text", |last| {
        let text = format!("{}{last}", "x".repeat(4 << 20));
        keys_of_the_first(ELEMENTS, Array::from_texts(DataType::Utf8, [Some(text)]).unwrap())
    });
    assert_compared("bytes of a fixed size", |last| {
        let bytes = vec![last as u8; 4 << 20];
        let data_type = DataType::FixedSizeBinary(bytes.len() as i32);
        keys_of_the_first(ELEMENTS, Array::from_bytes(data_type, [Some(bytes)]).unwrap())
    });
    assert_compared("views of the same bytes", |last| {
        byte_views(&vec![4 << 20; ELEMENTS], last as u8)
    });
    assert_compared("views of more and more bytes", |last| {
        let lengths: Vec<usize> = (1..=ELEMENTS).map(|number| 4 * number + 100).collect();
        byte_views(&lengths, last as u8)
    });
    assert_compared("list views that overlap", |last| {
        let numbers = Array::from_values(DataType::Int64, vec![Some(last); ELEMENTS]).unwrap();
        let half = ELEMENTS as i32 / 2;
        views_of(numbers, &(0..half).map(|start| (start, half)).collect::<Vec<_>>())
    });
    assert_compared("the same list view", |last| {
        let numbers = Array::from_values(DataType::Int64, vec![Some(last); ELEMENTS]).unwrap();
        views_of(numbers, &vec![(0, ELEMENTS as i32); ELEMENTS])
    });
}

// Requirement: SAF-38
#[test]
fn each_item_of_nested_fixed_size_lists_is_compared_once() {
    assert_compared("2^16 items in lists of two", |last| {
        let mut numbers = vec![Some(7); 1 << 16];
        *numbers.last_mut().unwrap() = Some(last);
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        (0..16).fold(numbers, |items, _| fixed_size_lists(2, items))
    });
}

// Requirement: SAF-38
#[test]
fn views_into_many_buffers_are_compared_in_time() {
    const BUFFERS: usize = 20_000;
    assert_compared("a buffer for each view", |last| {
        let views: Vec<u8> = (0..BUFFERS as i32)
            .flat_map(|number| {
                let prefix = i32::from_ne_bytes(*b"xxxx");
                [20, prefix, number, 0].into_iter().flat_map(i32::to_ne_bytes)
            })
            .collect();
        let mut text = vec![b'x'; 20];
        text[19] = last as u8;
        let data = (0..BUFFERS).map(|_| Some(Buffer::from(text.clone())));
        let buffers = [None, Some(Buffer::from(views))].into_iter().chain(data);
        let builder = Array::builder(DataType::BinaryView).len(BUFFERS);
        builder.buffers(buffers).finish_ready().unwrap()
    });
}

// Requirement: SAF-38
#[test]
fn lists_that_share_items_in_another_way_on_each_side_are_refused() {
    const ITEMS: usize = 12_000;
    let views = |moved: i32| {
        let items = Array::from_values(DataType::Int64, vec![Some(7_i64); 2 * ITEMS]).unwrap();
        let start = |number: i32| if moved == 0 { 0 } else { number };
        let views = (0..ITEMS as i32).map(|number| (start(number), ITEMS as i32));
        views_of(items, &views.collect::<Vec<_>>())
    };
    let error = soon("list views", move || views(0).equals(&views(1)).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

/// What was compared is remembered by its place, so that places that look alike must not be mixed
/// up: only the last of many pairs differs, after most others were remembered.
#[test]
fn a_difference_behind_much_that_is_remembered_is_found() {
    fn check<T: Debug>(what: T, make: impl Fn(usize) -> Array + Send + 'static) {
        let what = format!("{what:?}");
        let found = soon(&what, move || {
            let one = make(0);
            let equal = |other: usize| one.equals(&make(other)).map_err(|error| error.to_string());
            [0, 1, 2, 3].map(equal)
        });
        assert_eq!(found, [Ok(true), Ok(false), Ok(false), Ok(false)], "{what}");
    }
    const LISTS: usize = 1000;
    // A hundred lists of a hundred items, one of which differs, and keys that come to it late.
    check("keys of lists", |differs| {
        let numbers =
            (0..10_000).map(|number| Some(if number == 9_950 { differs } else { 7 } as i64));
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        let data_type = DataType::list(DataType::Int64);
        let lists = Array::from_lists(data_type, vec![Some(100); 100], numbers).unwrap();
        let keys = (0..LISTS * 5).map(|key| Some(key % 99)).chain([Some(99)]);
        let data_type = DataType::dictionary(IndexType::Int32, lists.data_type().clone());
        Array::from_keys(data_type, keys, lists).unwrap()
    });
    check("keys of texts", |differs| {
        let long = "x".repeat(10_000);
        let texts = (0..100)
            .map(|number| Some(format!("{long}{}", if number == 99 { differs } else { 7 })));
        let texts = Array::from_texts(DataType::Utf8, texts).unwrap();
        let keys = (0..LISTS * 5).map(|key| Some(key % 99)).chain([Some(99)]);
        let data_type = DataType::dictionary(IndexType::Int32, DataType::Utf8);
        Array::from_keys(data_type, keys, texts).unwrap()
    });
    check("list views", |differs| {
        let numbers =
            (0..10_000).map(|number| Some(if number == 9_999 { differs } else { 7 } as i64));
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        let views = (0..LISTS as i32).map(|number| (number, 7_999)).chain([(2_001, 7_999)]);
        views_of(numbers, &views.collect::<Vec<_>>())
    });
}

#[test]
fn what_is_remembered_of_one_place_says_nothing_of_another() {
    const LISTS: usize = 1000;
    let columns = |columns: [Array; 2]| {
        let columns = ["a", "b"].into_iter().zip(columns);
        Array::from(Batch::from_columns(columns).unwrap())
    };
    let views = |last: (i32, i32)| {
        let numbers = (0..5000_i64).map(|number| Some(number % 2));
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        let all = (1..LISTS).map(|_| (0, 4000)).chain([last]);
        views_of(numbers, &all.collect::<Vec<_>>())
    };
    // Items that are shifted by one differ, those that are shifted by two do not.
    assert!(views((0, 4000)).equals(&views((2, 4000))).unwrap());
    assert!(!views((0, 4000)).equals(&views((1, 4000))).unwrap());
    // The same of another column.
    let both = |last| columns([views((0, 4000)), views(last)]);
    assert!(both((0, 4000)).equals(&both((2, 4000))).unwrap());
    assert!(!both((0, 4000)).equals(&both((1, 4000))).unwrap());
    // The same of another buffer, and of other bytes of one.
    let bytes = |buffer: i32, start: i32, last: u8| {
        let (mut data, mut other) = (vec![b'x'; 1 << 17], vec![b'x'; 1 << 17]);
        (data[(1 << 17) - 1], other[(1 << 16) - 1]) = (last, b'y');
        let views: Vec<u8> = (1..LISTS)
            .map(|_| (0, 0))
            .chain([(buffer, start)])
            .flat_map(|(buffer, start)| {
                let prefix = i32::from_ne_bytes(*b"xxxx");
                [1 << 16, prefix, buffer, start].into_iter().flat_map(i32::to_ne_bytes)
            })
            .collect();
        let buffers = [None, Some(Buffer::from(views)), Some(data.into()), Some(other.into())];
        let builder = Array::builder(DataType::BinaryView).len(LISTS);
        builder.buffers(buffers).finish_ready().unwrap()
    };
    assert!(bytes(0, 0, b'x').equals(&bytes(0, 1 << 16, b'x')).unwrap());
    assert!(!bytes(0, 0, b'x').equals(&bytes(0, 1 << 16, b'z')).unwrap());
    assert!(bytes(1, 0, b'x').equals(&bytes(1, 0, b'z')).unwrap());
    assert!(!bytes(0, 0, b'x').equals(&bytes(1, 0, b'x')).unwrap());
}

// Requirement: SAF-38
#[test]
fn an_array_of_a_type_that_shares_its_fields_is_refused() {
    let errors = soon("arrays", || {
        let shared = || {
            (0..40).fold(DataType::Int8, |inner, _| {
                let field = Field::new("a", inner, true);
                DataType::struct_([field.clone(), field])
            })
        };
        let nulls = || Array::nulls(1).unwrap();
        let keys = DataType::dictionary(IndexType::Int32, shared());
        [
            Array::builder(shared()).finish_ready().unwrap_err(),
            Array::from_lists(DataType::list(shared()), [Some(1)], nulls()).unwrap_err(),
            Array::from_keys(keys, [Some(0_usize)], nulls()).unwrap_err(),
            Array::from_fields(shared(), [true], [nulls(), nulls()]).unwrap_err(),
        ]
    });
    for error in errors {
        let kind = error.kind();
        let is_refused = matches!(kind, ErrorKind::LimitExceeded | ErrorKind::SchemaMismatch);
        assert!(is_refused, "{kind:?}: {error}");
        assert!(error.to_string().len() < 200 << 10);
    }
}

// Requirement: SAF-38
#[test]
fn a_value_that_names_one_text_again_and_again_is_not_made_in_one_piece() -> crate::Result<()> {
    let text = "x".repeat(1 << 10);
    let list = |count: usize| -> crate::Result<Array> {
        let values = Array::from_texts(DataType::Utf8, [Some(&*text)])?;
        let keys = DataType::dictionary(IndexType::Int8, DataType::Utf8);
        let keys = Array::from_keys(keys, vec![Some(0); count], values)?;
        Array::from_lists(DataType::list(keys.data_type().clone()), [Some(count)], keys)
    };
    // 64 MiB, and what the array has itself.
    assert!(list(1 << 16)?.host()?.value(0).is_ok());
    let many = list((1 << 16) + 200)?;
    assert_eq!(many.host()?.value(0).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(many.host()?.preview(0, 10).is_ok());
    // A text alone may have any length.
    let one = Array::from_texts(DataType::Utf8, [Some("y".repeat(65 << 20))])?;
    assert!(one.host()?.value(0).is_ok());
    Ok(())
}

// Requirement: SAF-38
#[test]
fn views_into_many_buffers_are_read_and_put_together_in_time_for_each_element() {
    // Each list view names the one text, which lies in the last of many buffers.
    const BUFFERS: usize = 20_000;
    let lists = || {
        let text = b"a text that is longer than a view";
        let view = [text.len() as i32, i32::from_ne_bytes(*b"a te"), BUFFERS as i32 - 1, 0];
        let views: Vec<u8> = view.into_iter().flat_map(i32::to_ne_bytes).collect();
        let data = (0..BUFFERS).map(|_| Some(Buffer::from(text.to_vec())));
        let buffers = [None, Some(Buffer::from(views))].into_iter().chain(data);
        let texts = Array::builder(DataType::Utf8View).len(1).buffers(buffers);
        let places: Vec<(i32, i32)> = vec![(0, 1); 20_000];
        views_of(texts.finish_ready().unwrap(), &places)
    };
    let text = "[\"a text that is longer than a view\"]";
    let whole = soon("concat", move || Array::concat(&[lists()])).unwrap();
    assert_eq!(whole.host().unwrap().value(19_999).unwrap().to_string(), text);
    let last = soon("values", move || {
        let host = lists().host().unwrap();
        (0..host.len()).map(|index| host.value(index).unwrap().to_string()).next_back()
    });
    assert_eq!(last.as_deref(), Some(text));
}

// Requirement: SAF-38
#[test]
fn one_large_text_named_many_times_is_refused_before_it_is_read() {
    let error = soon("concat", || {
        let text = Array::from_texts(DataType::Utf8, [Some("x".repeat(16 << 20))]).unwrap();
        Array::concat(&[views_of(text, &vec![(0, 1); 20_000])]).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

// Requirement: SAF-38
#[test]
fn pieces_of_elements_without_bytes_are_counted() {
    let error = soon("concat", || {
        let field = |number: usize| Field::new(number.to_string(), DataType::Null, true);
        let of = DataType::struct_((0..1000).map(field));
        let nulls = (0..1000).map(|_| Array::nulls(2).unwrap());
        let rows = Array::from_fields(of, [true, true], nulls).unwrap();
        // No two follow each other.
        Array::concat(&[views_of(rows, &vec![(0, 1); 100_000])]).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

// Requirement: SAF-38
#[test]
fn of_a_large_text_a_table_reads_the_beginning() {
    let table = soon("table", || {
        let text = Array::from_texts(DataType::Utf8, [Some("é".repeat(10 << 20))]).unwrap();
        let keys = keys_of_the_first(5_000, text);
        Batch::from_columns([("text", keys)]).unwrap().to_table(5_000).unwrap()
    });
    assert!(table.contains("ééé…"), "{}", table.get(..200).unwrap_or_default());
}

// Requirement: SAF-38
#[test]
fn of_large_bytes_and_of_long_names_a_table_reads_the_beginning() {
    let table = soon("table", || {
        let bytes = Array::from_bytes(DataType::FixedSizeBinary(8 << 20), [Some(vec![7; 8 << 20])]);
        let name = "n".repeat(8 << 20);
        let none = Array::nulls(1).unwrap();
        let of = DataType::struct_([Field::new(name, DataType::Null, true)]);
        let named = Array::from_fields(of, [true], [none]).unwrap();
        let columns = [bytes.unwrap(), named].map(|values| keys_of_the_first(5_000, values));
        let columns = ["bytes", "named"].into_iter().zip(columns);
        Batch::from_columns(columns).unwrap().to_table(5_000).unwrap()
    });
    let row = table.lines().nth(3).unwrap();
    assert!(row.contains("0x0707") && row.contains("{nnnn"), "{row}");
}

// Requirement: SAF-38
#[test]
fn a_beginning_has_few_parts_however_many_are_asked_for_and_named() {
    // Each text of the list is as long as the list, so that all beginnings have many characters.
    let text = "x".repeat(2000);
    let texts = Array::from_texts(DataType::Utf8, vec![Some(&*text); 2000]).unwrap();
    let of = DataType::list(DataType::Utf8);
    let list = Array::from_lists(of, [Some(texts.len())], texts).unwrap();
    for most in [1, 2, 30, 2000] {
        let beginning = list.host().unwrap().preview(0, most).unwrap().to_string();
        // Two brackets and two quotes beside the characters, of which an item leaves one less.
        assert!((most..=most + 4).contains(&beginning.len()), "{most}: {beginning}");
    }
    // What a few kilobytes name again and again, 30 levels deep.
    let mut lists = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
    for _ in 0..30 {
        let (starts, sizes) = (vec![0_i32; 4], vec![lists.len() as i32; 4]);
        lists = Array::builder(DataType::list_view(lists.data_type().clone()))
            .len(4)
            .buffers([None, Some(starts.into()), Some(sizes.into())])
            .children([lists])
            .finish_ready()
            .unwrap();
    }
    assert!(lists.host().unwrap().preview(0, usize::MAX).is_ok());
}

// Requirement: SAF-38
#[test]
fn a_table_has_few_cells_however_many_rows_are_asked_for() {
    const ROWS: usize = 1 << 24;
    let nulls = Array::nulls(ROWS).unwrap();
    let columns = (0..1024).map(|number| (number.to_string(), nulls.clone()));
    let table = Batch::from_columns(columns).unwrap().to_table(usize::MAX).unwrap();
    let more = format!("and {} more rows", ROWS - 1024);
    assert_eq!(table.lines().last(), Some(&*more));
}

#[test]
fn a_beginning_ends_at_a_character_and_says_what_is_wrong_with_it() {
    let bytes = |text: &[u8]| {
        let data = [None, Some(vec![0, text.len() as i32].into()), Some(text.to_vec().into())];
        let array = Array::builder(DataType::Utf8).len(1).buffers(data).finish_ready();
        array.unwrap().host().unwrap()
    };
    let text = "aé".repeat(10);
    for most in 1..text.len() {
        let beginning = bytes(text.as_bytes()).preview(0, most).unwrap().to_string();
        let beginning = beginning.trim_matches('"');
        assert!(text.starts_with(beginning), "{most}: {beginning}");
        assert_eq!(beginning.chars().count(), most.min(text.chars().count()), "{beginning}");
    }
    let wide = [0x61; 100];
    for of in [DataType::Binary, DataType::FixedSizeBinary(100), DataType::BinaryView] {
        let array = Array::from_bytes(of, [Some(wide)]).unwrap();
        let beginning = array.host().unwrap().preview(0, 7).unwrap();
        assert_eq!(beginning, Value::Bytes(wide[..7].to_vec()));
    }
    let error = bytes(b"ab\xffcd").preview(0, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
}

// Requirement: SAF-38
#[test]
fn a_description_ends_after_so_many_bytes() {
    let text = soon("describe", || {
        let name = "n".repeat(40_000);
        let columns = (0..1000).map(|_| (name.clone(), Array::nulls(1).unwrap()));
        Batch::from_columns(columns).unwrap().as_array().describe()
    });
    assert!(text.len() <= (16 << 20) + 3 && text.ends_with('…'), "{}", text.len());
}
