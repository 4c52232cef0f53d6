//! Content that leads nowhere is an error that says where, and never a read outside.

use super::examples::examples;
use super::{assert_fails, rebuilt};
use crate::ErrorKind::{InvalidData, LimitExceeded};
use crate::{Array, ArrayBuilder, Buffer, DataType, Field, HostArray, IndexType, UnionMode};

fn host(builder: ArrayBuilder) -> HostArray {
    builder.finish_ready().unwrap().host().unwrap()
}

fn with_buffers<const N: usize>(
    data_type: DataType,
    len: usize,
    buffers: [Option<Buffer>; N],
) -> ArrayBuilder {
    Array::builder(data_type).len(len).buffers(buffers)
}

fn texts(offsets: &[i32], bytes: &[u8]) -> HostArray {
    let buffers = [None, Some(offsets.to_vec().into()), Some(bytes.to_vec().into())];
    host(with_buffers(DataType::Utf8, offsets.len() - 1, buffers))
}

fn large_bytes(offsets: &[i64], bytes: &[u8]) -> HostArray {
    let buffers = [None, Some(offsets.to_vec().into()), Some(bytes.to_vec().into())];
    host(with_buffers(DataType::LargeBinary, offsets.len() - 1, buffers))
}

#[test]
fn offsets_of_text_that_lead_outside_are_errors() {
    for offsets in [[0, 9, 3], [0, 2, 9], [0, -1, 3], [-2, 1, 3], [0, 3, 2], [3, 0, 3]] {
        let wrong = texts(&offsets, b"abc");
        assert_fails(wrong.texts(), InvalidData, "offset");
        assert_fails(wrong.bytes(), InvalidData, "offset");
        let values: Vec<_> = (0..2).map(|index| wrong.value(index)).collect();
        assert!(values.iter().any(Result::is_err), "{offsets:?}: {values:?}");
        let wrong = large_bytes(&offsets.map(i64::from), b"abc");
        assert_fails(wrong.bytes(), InvalidData, "offset");
    }
    for offsets in [[0, i64::MAX], [0, i64::MIN], [i64::MIN, 0], [i64::MAX, i64::MAX]] {
        assert_fails(large_bytes(&offsets, b"abc").bytes(), InvalidData, "offset");
    }
}

#[test]
fn an_error_names_the_place() {
    let wrong = texts(&[0, 3, 2], b"abc").array().clone();
    let lists = DataType::list(DataType::Utf8);
    let lists = Array::from_lists(lists, [Some(1), Some(1)], wrong).unwrap();
    assert_fails(lists.host().unwrap().value(1), InvalidData, "root.child[0]: element 1");
}

#[test]
fn text_that_is_not_utf_8_is_an_error_where_it_is_not_null() {
    let wrong = texts(&[0, 1, 3], b"a\xff\xfe");
    assert_fails(wrong.texts(), InvalidData, "element 1 is not UTF-8");
    assert_eq!(wrong.value(0).unwrap().to_string(), "a");
    assert_fails(wrong.value(1), InvalidData, "not UTF-8");
    assert_eq!(wrong.bytes().unwrap().get(1), Some(&b"\xff\xfe"[..]));
    // An offset inside a character.
    assert_fails(texts(&[0, 1, 2], "ä".as_bytes()).texts(), InvalidData, "element 0 is not UTF-8");
    let bitmap = Some(vec![0b01_u8].into());
    let buffers = [bitmap, Some(vec![0, 1, 3].into()), Some(b"a\xff\xfe".to_vec().into())];
    let null = host(with_buffers(DataType::Utf8, 2, buffers));
    assert_eq!(null.texts().unwrap().iter().collect::<Vec<_>>(), [Some("a"), None]);
}

fn views(view: [i32; 4], data: &[&[u8]]) -> HostArray {
    let data = data.iter().map(|bytes| Some(bytes.to_vec().into()));
    let buffers = [None, Some(view.to_vec().into())].into_iter().chain(data);
    host(Array::builder(DataType::Utf8View).len(1).buffers(buffers))
}

#[test]
fn views_that_lead_outside_are_errors() {
    let prefix = i32::from_ne_bytes(*b"0123");
    let data: &[&[u8]] = &[b"0123456789abcdef"];
    assert_eq!(views([16, prefix, 0, 0], data).texts().unwrap().get(0), Some("0123456789abcdef"));
    for view in [
        [17, prefix, 0, 0],
        [16, prefix, 0, 1],
        [16, prefix, 1, 0],
        [16, prefix, -1, 0],
        [16, prefix, 0, -1],
        [-1, prefix, 0, 0],
        [i32::MAX, prefix, 0, i32::MAX],
        [i32::MIN, prefix, i32::MIN, i32::MIN],
    ] {
        assert_fails(views(view, data).texts(), InvalidData, "its view names");
        assert_fails(views(view, data).value(0), InvalidData, "its view names");
    }
    assert_fails(views([16, prefix, 0, 0], &[]).texts(), InvalidData, "its view names");
    assert_fails(views([16, 0, 0, 0], data).texts(), InvalidData, "the prefix in its view");
    let not_utf8 = i32::from_ne_bytes([0xff, 0, 0, 0]);
    assert_fails(views([1, not_utf8, 0, 0], data).texts(), InvalidData, "not UTF-8");
}

#[test]
fn lists_that_lead_outside_are_errors() {
    let items = || Array::from_values(DataType::Int8, [Some(1_i8), Some(2)]).unwrap();
    for offsets in [[0, 3], [2, 1], [-1, 1], [0, -1], [i32::MIN, i32::MAX]] {
        let buffers = [None, Some(offsets.to_vec().into())];
        let builder = with_buffers(DataType::list(DataType::Int8), 1, buffers);
        let wrong = host(builder.children([items()]));
        assert_fails(wrong.lists(), InvalidData, "its offsets are");
        assert_fails(wrong.value(0), InvalidData, "its offsets are");
    }
    for (start, size) in [(0, 3), (2, 1), (-1, 1), (1, -1), (i64::MAX, i64::MAX)] {
        let buffers = [None, Some(vec![start].into()), Some(vec![size].into())];
        let builder = with_buffers(DataType::large_list_view(DataType::Int8), 1, buffers);
        let wrong = host(builder.children([items()]));
        assert_fails(wrong.lists(), InvalidData, "its offsets are");
        assert_fails(wrong.value(0), InvalidData, "its offsets are");
    }
}

#[test]
fn offsets_are_in_order_even_where_an_element_is_null() {
    let bitmap = || Some(vec![0b10_u8].into());
    let offsets = || Some(vec![2, 1, 2].into());
    let buffers = [bitmap(), offsets(), Some(b"ab".to_vec().into())];
    let wrong = host(with_buffers(DataType::Utf8, 2, buffers));
    assert_fails(wrong.texts(), InvalidData, "element 0: its offsets are 2 and 1");
    let builder = with_buffers(DataType::list(DataType::Null), 2, [bitmap(), offsets()]);
    let wrong = host(builder.children([Array::nulls(2).unwrap()]));
    assert_fails(wrong.lists(), InvalidData, "element 0: its offsets are 2 and 1");
}

#[test]
fn what_a_null_view_says_is_not_looked_at() {
    let nothing = || Some(vec![0_u8].into());
    let builder =
        with_buffers(DataType::BinaryView, 1, [nothing(), Some(vec![-1, -1, -1, -1].into())]);
    assert_eq!(host(builder).bytes().unwrap().get(0), None);
    let wrong = || Some(vec![-1].into());
    let builder =
        with_buffers(DataType::list_view(DataType::Null), 1, [nothing(), wrong(), wrong()]);
    let lists = host(builder.children([Array::nulls(0).unwrap()]));
    assert_eq!(lists.lists().unwrap().range(0), None);
}

#[test]
fn an_entry_of_a_map_that_is_null_is_an_error() {
    let map = DataType::map(DataType::Int8, DataType::Int8);
    let entries = map.child(0).unwrap().data_type().clone();
    let numbers = || Array::from_values(DataType::Int8, [Some(1_i8), Some(2)]).unwrap();
    let entries = Array::from_fields(entries, [true, false], [numbers(), numbers()]).unwrap();
    let maps = Array::from_lists(map, [Some(1), Some(1)], entries).unwrap().host().unwrap();
    assert_eq!(maps.value(0).unwrap().to_string(), "{1: 1}");
    assert_fails(maps.value(1), InvalidData, "entry 1 is null");
}

#[test]
fn keys_that_lead_outside_are_errors() {
    let keys = |index, buffer: Buffer| {
        let data_type = DataType::dictionary(index, DataType::Null);
        let builder = with_buffers(data_type, 1, [None, Some(buffer)]);
        host(builder.dictionary(Array::nulls(3).unwrap()))
    };
    for wrong in [
        keys(IndexType::Int8, vec![3_i8].into()),
        keys(IndexType::Int8, vec![-1_i8].into()),
        keys(IndexType::UInt8, vec![255_u8].into()),
        keys(IndexType::Int64, vec![i64::MIN].into()),
        keys(IndexType::UInt64, vec![u64::MAX].into()),
    ] {
        assert_fails(wrong.follow(0), InvalidData, "is not among 3 values");
        assert_fails(wrong.value(0), InvalidData, "is not among 3 values");
        assert_fails(wrong.is_null(0), InvalidData, "is not among 3 values");
    }
}

#[test]
fn variants_that_lead_outside_are_errors() {
    let field = || Field::new("a", DataType::Null, true);
    let union = |id: i8, offset: i32| {
        let data_type = DataType::Union {
            mode: UnionMode::Dense,
            type_ids: [5].into(),
            fields: [field()].into(),
        };
        let buffers = [Some(vec![id].into()), Some(vec![offset].into())];
        host(with_buffers(data_type, 1, buffers).children([Array::nulls(3).unwrap()]))
    };
    union(5, 2).value(0).unwrap();
    for id in [0, -5, 127] {
        assert_fails(union(id, 0).value(0), InvalidData, "no field has the type id");
    }
    for offset in [3, -1, i32::MAX, i32::MIN] {
        assert_fails(union(5, offset).value(0), InvalidData, "of a field that has 3");
    }
}

#[test]
fn run_ends_that_are_not_in_order_are_errors() {
    let runs = |ends: &[i32], len: usize| {
        let values = Array::nulls(ends.len()).unwrap();
        let ends = Array::from_values(DataType::Int32, ends.iter().copied().map(Some)).unwrap();
        let data_type = DataType::run_end_encoded(DataType::Int32, DataType::Null);
        host(Array::builder(data_type).len(len).children([ends, values]))
    };
    assert!((0..6).all(|index| runs(&[1, 2, 6], 6).follow(index).unwrap().is_some()));
    for ends in
        [[4, 2, 6], [2, 2, 6], [-1, 3, 6], [0, 3, 6], [2, 6, 6], [6, 5, 4], [3, i32::MIN, 6]]
    {
        let wrong = runs(&ends, 6);
        let found: Vec<_> = (0..6).map(|index| wrong.follow(index)).collect();
        let error = found.into_iter().find_map(Result::err);
        let error = error.unwrap_or_else(|| panic!("{ends:?} is taken"));
        assert_eq!(error.kind(), InvalidData, "{error}");
    }
    assert_fails(runs(&[1, 2], 3).follow(2), InvalidData, "no run reaches element 2");
}

#[test]
fn run_ends_that_are_null_are_errors() {
    // Nobody has counted them, so that it does not show before they are looked at.
    let buffers = [Some(vec![0b101_u8].into()), Some(vec![1_i16, 0, 3].into())];
    let ends = with_buffers(DataType::Int16, 3, buffers).finish_ready().unwrap();
    let data_type = DataType::run_end_encoded(DataType::Int16, DataType::Null);
    let values = Array::nulls(3).unwrap();
    let wrong = host(Array::builder(data_type).len(3).children([ends, values]));
    assert_fails(wrong.follow(1), InvalidData, "run end 1 is null");
}

// Requirement: SAF-2
#[test]
fn any_content_is_read_or_refused() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..if cfg!(miri) { 1 } else { 300 } {
        for example in examples() {
            let wild = rebuilt(&example.array, &mut |bytes| {
                for byte in bytes {
                    // Few bytes, so that some of it makes sense.
                    *byte = match random() % 16 {
                        0 => random() as u8,
                        1 => 0xff,
                        2 => 0x7f,
                        3 => 1,
                        4 => 0,
                        5 => 4,
                        _ => *byte,
                    };
                }
            });
            let host = wild.host().unwrap();
            for index in 0..wild.len() {
                match host.value(index).map(|value| value.to_string()) {
                    Ok(_) => read += 1,
                    Err(error) => {
                        assert!([InvalidData, LimitExceeded].contains(&error.kind()), "{error}");
                        refused += 1;
                    }
                }
                let _ = host.is_null(index);
            }
            let _ = (host.texts().is_ok(), host.bytes().is_ok(), host.lists().is_ok());
            let _ = wild.equals(&wild);
            assert!(wild.describe().starts_with("on cpu"));
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}

// Requirement: SAF-38
#[test]
fn rows_without_bytes_are_looked_at_in_no_time() {
    let rows = 1 << (usize::BITS - 6);
    let bytes = Array::builder(DataType::FixedSizeBinary(0)).len(rows).null_count(0);
    let bytes = bytes.buffers([None, None]).finish_ready().unwrap();
    let host = bytes.host().unwrap();
    let read = host.bytes().unwrap();
    assert_eq!((read.len(), read.get(rows - 1)), (rows, Some(&[][..])));
    let item = Array::from_values(DataType::Int32, [Some(7)]).unwrap();
    let lists = Array::builder(DataType::fixed_size_list(DataType::Int32, 0)).len(rows);
    let lists = lists.null_count(0).buffers([None]).children([item]).finish_ready().unwrap();
    let host = lists.host().unwrap();
    let read = host.lists().unwrap();
    assert_eq!(read.get(rows - 1).unwrap().unwrap().len(), 0);
}

/// Views of a few megabytes of text, which stand for terabytes: each byte is looked at once. Many
/// data buffers are the same bytes.
// Requirement: SAF-38
#[test]
fn views_that_share_their_text_are_validated_and_read_in_a_moment() {
    const TIMES: i32 = 100;
    let count = 300_000;
    let array = |text: Vec<u8>| {
        let len = text.len() as i32;
        let text = Buffer::from(text);
        let view = |number: i32| {
            let (offset, prefix, buffer) = (number % 1000, [b'x'; 4], number % TIMES);
            [(len - offset).to_le_bytes(), prefix, buffer.to_le_bytes(), offset.to_le_bytes()]
        };
        let views: Vec<u8> = (0..count).flat_map(view).flatten().collect();
        let same = (0..TIMES).map(|_| Some(text.clone()));
        let buffers = [None, Some(views.into())].into_iter().chain(same);
        Array::builder(DataType::Utf8View).len(count as usize).buffers(buffers).finish_ready()
    };
    let right = array(vec![b'x'; 16 << 20]).unwrap();
    right.validate().unwrap();
    assert_eq!(right.host().unwrap().texts().unwrap().len(), 300_000);
    let mut text = vec![b'x'; 16 << 20];
    text[12 << 20] = 0xff;
    let wrong = array(text).unwrap();
    let error = wrong.validate().unwrap_err().to_string();
    assert!(error.contains("element 0: not UTF-8 from byte 12582912 of 16777216 on"), "{error}");
    let error = wrong.host().unwrap().texts().map(drop).unwrap_err().to_string();
    assert!(error.contains("element 0 is not UTF-8"), "{error}");
}
