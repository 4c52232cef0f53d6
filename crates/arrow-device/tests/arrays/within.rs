//! Arrays that are made with all that is below them, of parts of one buffer or of a few.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{
    Array, Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Field, IndexType, Ready,
    Result, Schema, UnionMode, WithinBuilder,
};

/// The bytes of several buffers, each at a place that is aligned to nothing.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn add(&mut self, bytes: &[u8]) -> Option<Range<u64>> {
        let start = self.0.len() as u64;
        self.0.extend_from_slice(bytes);
        self.0.push(0xee);
        Some(start..start + bytes.len() as u64)
    }
}

fn words(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn values() -> Array {
    Array::from_texts(DataType::Utf8, [Some("low"), Some("high")]).unwrap()
}

/// A field with a bit of everything, in two rows.
fn schema() -> Schema {
    let run_ends = DataType::RunEndEncoded {
        run_ends: Arc::new(Field::new("run_ends", DataType::Int32, false)),
        values: Arc::new(Field::new("values", DataType::Int32, true)),
    };
    let union = DataType::Union {
        mode: UnionMode::Sparse,
        type_ids: Arc::new([7]),
        fields: Arc::new([Field::new("only", DataType::Int32, true)]),
    };
    Schema::batch([
        Field::new("coded", DataType::dictionary(IndexType::Int32, DataType::Utf8), true),
        Field::new("lists", DataType::list(DataType::Int32), true),
        Field::new("views", DataType::Utf8View, true),
        Field::new("runs", run_ends, true),
        Field::new("union", union, false),
        Field::new("nothing", DataType::Null, true),
        Field::new("nested", DataType::list(schema_of_coded()), true),
    ])
    .unwrap()
}

fn schema_of_coded() -> DataType {
    let coded = DataType::dictionary(IndexType::Int32, DataType::Utf8);
    DataType::struct_([Field::new("inner", coded, true)])
}

const VIEWED: &[u8] = b"a text that is longer than twelve bytes";

/// Gives all nodes of the schema, in its order.
fn give(body: &mut Body, memory: impl FnOnce(Vec<u8>) -> Buffer) -> Result<WithinBuilder> {
    let bitmap = body.add(&[0b01]);
    let indices = body.add(&words(&[1, 0]));
    let offsets = body.add(&words(&[0, 1, 3]));
    let three = body.add(&words(&[10, 20, 30]));
    let mut view = words(&[VIEWED.len() as i32]);
    view.extend_from_slice(&VIEWED[..4]);
    view.extend(words(&[0, 0]));
    let views = body.add(&[&view[..], &[0; 16]].concat());
    let viewed = body.add(VIEWED);
    let run_end = body.add(&words(&[2]));
    let type_ids = body.add(&[7, 7]);
    let three_indices = body.add(&words(&[0, 1, 0]));
    let mut builder = Array::builder_within(&schema(), memory(std::mem::take(&mut body.0)));
    builder.node(2, 0, [None])?;
    builder.node(2, 1, [bitmap.clone(), indices])?;
    builder.dictionary(values())?;
    builder.node(2, 0, [None, offsets.clone()])?;
    builder.node(3, 0, [None, three.clone()])?;
    builder.node(2, 1, [bitmap, views, viewed])?;
    builder.node(2, 0, [])?;
    builder.node(1, 0, [None, run_end.clone()])?;
    builder.node(1, 0, [None, run_end])?;
    builder.node(2, 0, [type_ids])?;
    builder.node(2, 0, [None, three])?;
    builder.node(2, 0, [])?;
    builder.node(2, 0, [None, offsets])?;
    builder.node(3, 0, [None])?;
    builder.node(3, 0, [None, three_indices])?;
    builder.dictionary(values())?;
    Ok(builder)
}

fn whole() -> Array {
    give(&mut Body::default(), Buffer::from).unwrap().finish_ready().unwrap()
}

/// The same, made of an array for each node.
fn one_by_one() -> Array {
    let ints = |numbers: &[i32]| {
        Array::from_values(DataType::Int32, numbers.iter().copied().map(Some)).unwrap()
    };
    let coded = |len: usize, bitmap: Option<Buffer>, indices: Vec<i32>| {
        let builder = Array::builder(DataType::dictionary(IndexType::Int32, DataType::Utf8));
        let builder = builder.len(len).buffers([bitmap, Some(indices.into())]);
        builder.dictionary(values()).finish_ready().unwrap()
    };
    let schema = schema();
    let column = |index: usize| schema.columns()[index].clone();
    let built = |field: Field, buffers: Vec<Option<Buffer>>, children: Vec<Array>| {
        let builder = Array::builder(Schema::new(field).unwrap()).len(2).buffers(buffers);
        builder.children(children).finish_ready().unwrap()
    };
    let offsets = || Some(Buffer::from(vec![0, 1, 3]));
    let viewed = std::str::from_utf8(VIEWED).unwrap();
    let inner = coded(3, None, vec![0, 1, 0]);
    let struct_of = Array::builder(schema_of_coded()).len(3).buffers([None]).children([inner]);
    let columns = [
        coded(2, Some(vec![0b01_u8].into()), vec![1, 0]),
        built(column(1), vec![None, offsets()], vec![ints(&[10, 20, 30])]),
        Array::from_texts(DataType::Utf8View, [Some(viewed), None]).unwrap(),
        built(column(3), vec![], vec![ints(&[2]), ints(&[2])]),
        built(column(4), vec![Some(vec![7_i8, 7].into())], vec![ints(&[10, 20])]),
        built(column(5), vec![], vec![]),
        built(column(6), vec![None, offsets()], vec![struct_of.finish_ready().unwrap()]),
    ];
    Array::builder(&schema).buffers([None]).children(columns).finish_ready().unwrap()
}

#[test]
fn an_array_of_parts_is_what_arrays_one_by_one_are() {
    let (whole, other) = (whole(), one_by_one());
    whole.validate().unwrap();
    assert!(whole.equals(&other).unwrap(), "{whole:?} and {other:?}");
    assert_eq!(whole.ready(), Ready::Now);
    let mut out = ArrowDeviceArray::empty();
    whole.export(&mut out).unwrap();
    // SAFETY: the struct was filled by `export`.
    let back = unsafe { Array::import(&raw mut out, &schema()) }.unwrap();
    assert!(back.equals(&other).unwrap());
    for index in 0..whole.child_count() {
        let (child, expected) = (whole.child(index).unwrap(), other.child(index).unwrap());
        assert!(child.equals(&expected).unwrap(), "{child:?}");
        let nulls = expected.host().unwrap().null_count().unwrap();
        assert_eq!(child.null_count(), Some(nulls), "{child:?}");
        let tail = child.slice(1, 1).unwrap().to_host().unwrap();
        assert!(tail.equals(&expected.slice(1, 1).unwrap()).unwrap(), "{tail:?}");
    }
}

#[test]
fn a_dictionary_stays_the_array_that_was_given() {
    let values = values();
    let schema = schema();
    let coded = Schema::batch([
        Field::new("n", DataType::Int32, true),
        schema.columns()[6].clone(),
        schema.columns()[0].clone(),
    ])
    .unwrap();
    let mut body = Body::default();
    let (offsets, indices) = (body.add(&words(&[0, 1, 2])), body.add(&words(&[1, 0])));
    let mut builder = Array::builder_within(&coded, body.0.into());
    builder.node(2, 0, [None]).unwrap();
    builder.node(2, 0, [None, indices.clone()]).unwrap();
    builder.node(2, 0, [None, offsets]).unwrap();
    builder.node(2, 0, [None]).unwrap();
    builder.node(2, 0, [None, indices.clone()]).unwrap();
    // The first one is given first, and its node has the larger number.
    let deep = self::values();
    builder.dictionary(deep.clone()).unwrap();
    builder.node(2, 0, [None, indices]).unwrap();
    builder.dictionary(values.clone()).unwrap();
    let whole = builder.finish_ready().unwrap();
    let flat = whole.child(2).unwrap().dictionary().unwrap();
    let nested = whole.child(1).unwrap().child(0).unwrap().child(0).unwrap();
    assert!(flat.is_same(&values));
    assert!(nested.dictionary().unwrap().is_same(&deep));
    assert!(!whole.is_only_share());
    drop((flat, nested, values, deep));
    assert!(whole.is_only_share());
}

#[test]
fn the_buffer_is_kept_by_each_child_and_released_once() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    struct Owner(#[expect(dead_code, reason = "it keeps the bytes")] Vec<u8>);
    impl Drop for Owner {
        fn drop(&mut self) {
            RELEASED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let memory = |bytes: Vec<u8>| {
        let (base, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
        // SAFETY: the owner keeps the bytes, and nobody writes to them.
        unsafe { Buffer::foreign(DeviceId::CPU, base, len, Owner(bytes)) }
    };
    drop(give(&mut Body::default(), memory).unwrap());
    assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    let whole = give(&mut Body::default(), memory).unwrap().finish_ready().unwrap();
    let child = whole.child(1).unwrap().child(0).unwrap();
    drop(whole);
    assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    assert_eq!(child.validate().map(|_| child.len()).unwrap(), 3);
    drop(child);
    assert_eq!(RELEASED.load(Ordering::Relaxed), 2);
}

/// A batch of two columns, which begin in the middle of their buffers and lie in two memories.
#[test]
fn a_node_may_begin_inside_its_buffers_and_lie_in_any_of_the_memories() {
    let schema = Schema::batch([
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int32, true),
    ])
    .unwrap();
    let second = Buffer::from(vec![0b0000_1011_u8, 0, 0, 0]);
    let mut builder =
        Array::builder_within(&schema, Buffer::from(vec![1, 2, 3, 4])).with_memory(second);
    assert!(format!("{builder:?}").contains(" and Buffer("), "{builder:?}");
    builder.node_of(0, 2, None, [None]).unwrap();
    builder.node_of(2, 2, None, [None, Some((0, 0..16))]).unwrap();
    builder.node_of(1, 3, None, [Some((1, 0..1)), Some((0, 0..16))]).unwrap();
    let whole = builder.finish_ready().unwrap();
    let column = |index: usize| whole.child(index).unwrap();
    assert_eq!((column(0).offset(), column(0).null_count()), (2, Some(0)));
    assert_eq!((column(1).offset(), column(1).null_count()), (1, None));
    let expected = [Some(2), None, Some(4)];
    assert!(column(1).equals(&Array::from_values(DataType::Int32, expected).unwrap()).unwrap());
    whole.validate().unwrap();
}

#[test]
fn a_part_of_memory_that_was_not_given_is_refused_and_so_is_memory_of_another_device() {
    let schema = Schema::batch([Field::new("x", DataType::Int32, true)]).unwrap();
    let begun = |memory: Buffer| {
        let builder = Array::builder_within(&schema, Buffer::from(vec![0_i32; 4]));
        let mut builder = builder.with_memory(memory);
        builder.node(2, 0, [None]).unwrap();
        builder
    };
    let mut builder = begun(vec![1, 2].into());
    let error = builder.node_of(0, 2, None, [None, Some((2, 0..8))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("buffer 2, which is not there"), "{error}");
    let mut builder = begun(vec![1, 2].into());
    let error = builder.node_of(1, 2, None, [None, Some((1, 0..8))]).unwrap_err();
    assert!(error.to_string().contains("buffer 1 has 8 bytes and needs 12"), "{error}");
    let base = std::ptr::dangling_mut::<u8>().cast();
    // SAFETY: nobody reads there, and no byte is there.
    let elsewhere = unsafe { Buffer::foreign(DeviceId::new(DeviceType::CUDA, 0), base, 0, ()) };
    let mut builder = begun(elsewhere);
    builder.node(2, 0, [None, Some(0..8)]).unwrap();
    let error = builder.finish_ready().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("parts on"), "{error}");
}

/// The length, the count of nulls and the places of the buffers of each node.
type Nodes<'a> = &'a [(usize, usize, &'a [Option<Range<u64>>])];

/// What a builder says of these nodes, below a struct of two rows.
fn refused(field: DataType, nodes: Nodes<'_>) -> Result<Array, Error> {
    let schema = Schema::batch([Field::new("x", field, true)]).unwrap();
    let mut builder = Array::builder_within(&schema, Buffer::from(vec![0_i32; 4]));
    builder.node(2, 0, [None])?;
    for (len, nulls, places) in nodes {
        builder.node(*len, *nulls, places.iter().cloned())?;
    }
    builder.finish_ready()
}

#[test]
fn nodes_that_their_type_or_the_node_above_does_not_allow_are_refused() {
    let run_ends = || DataType::RunEndEncoded {
        run_ends: Arc::new(Field::new("run_ends", DataType::Int32, false)),
        values: Arc::new(Field::new("values", DataType::Int32, true)),
    };
    let coded = || DataType::dictionary(IndexType::Int32, DataType::Utf8);
    let list = || DataType::FixedSizeList(Arc::new(Field::new("x", DataType::Int32, true)), 2);
    let bitmap = || Some(0..1);
    let cases: &[(DataType, Nodes<'_>, ErrorKind, &str)] = &[
        (
            DataType::Int32,
            &[(2, 0, &[None, Some(12..17)])],
            ErrorKind::InvalidArgument,
            "not inside a buffer",
        ),
        (
            DataType::Int32,
            &[(2, 0, &[None, Some(u64::MAX - 1..u64::MAX)])],
            ErrorKind::InvalidArgument,
            "not inside a buffer",
        ),
        (
            DataType::Int32,
            &[(2, 0, &[None, Some(0..7)])],
            ErrorKind::InvalidArgument,
            "buffer 1 has 7 bytes and needs 8",
        ),
        (
            DataType::Int32,
            &[(2, 0, &[None, None])],
            ErrorKind::InvalidArgument,
            "buffer 1 is missing but length is 2",
        ),
        (
            DataType::Int32,
            &[(2, 3, &[bitmap(), Some(0..8)])],
            ErrorKind::InvalidArgument,
            "null count is 3 for length 2",
        ),
        (
            DataType::Int32,
            &[(2, 1, &[None, Some(0..8)])],
            ErrorKind::InvalidArgument,
            "there is no validity bitmap",
        ),
        (
            DataType::Int32,
            &[(usize::MAX, 0, &[None, Some(0..8)])],
            ErrorKind::InvalidArgument,
            "more than any memory holds",
        ),
        (
            DataType::Int32,
            &[(1, 0, &[None, Some(0..8)])],
            ErrorKind::InvalidArgument,
            "1 elements do not cover the 2",
        ),
        (
            DataType::Int32,
            &[(2, 0, &[None])],
            ErrorKind::SchemaMismatch,
            "int32 has 2 buffers, not 1",
        ),
        (
            DataType::Int32,
            &[(2, 0, &[None, Some(0..8), None])],
            ErrorKind::SchemaMismatch,
            "int32 has 2 buffers, not 3",
        ),
        (
            DataType::Utf8View,
            &[(2, 0, &[None])],
            ErrorKind::SchemaMismatch,
            "has at least 2 buffers, not 1",
        ),
        (DataType::Int32, &[], ErrorKind::SchemaMismatch, "1 nodes of the schema are not given"),
        (
            DataType::Int32,
            &[(2, 0, &[None, Some(0..8)]), (2, 0, &[])],
            ErrorKind::InvalidArgument,
            "all nodes of the schema were given before",
        ),
        (
            list(),
            &[(2, 0, &[None]), (3, 0, &[None, Some(0..12)])],
            ErrorKind::InvalidArgument,
            "3 elements do not cover the 2",
        ),
        (
            run_ends(),
            &[(2, 0, &[]), (0, 0, &[None, None])],
            ErrorKind::InvalidArgument,
            "there are no run ends for 2 elements",
        ),
        (
            run_ends(),
            &[(2, 0, &[]), (1, 1, &[bitmap(), Some(0..4)])],
            ErrorKind::InvalidArgument,
            "run ends are null",
        ),
        (
            run_ends(),
            &[(2, 0, &[]), (2, 0, &[None, Some(0..8)]), (1, 0, &[None, Some(0..4)])],
            ErrorKind::InvalidArgument,
            "there are 2 run ends and 1 values",
        ),
        (
            coded(),
            &[(2, 0, &[None, Some(0..8)]), (0, 0, &[None, None, None])],
            ErrorKind::SchemaMismatch,
            "an array of their own",
        ),
    ];
    for (data_type, nodes, kind, words) in cases {
        let error = refused(data_type.clone(), nodes).unwrap_err();
        assert_eq!(error.kind(), *kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let coded = Schema::batch([Field::new("x", coded(), true)]).unwrap();
    let mut builder = Array::builder_within(&coded, Buffer::from(vec![0_i32; 4]));
    assert_eq!(builder.dictionary(values()).unwrap_err().kind(), ErrorKind::SchemaMismatch);
    let mut builder = Array::builder_within(&coded, Buffer::from(vec![0_i32; 4]));
    builder.node(2, 0, [None]).unwrap();
    builder.node(2, 0, [None, Some(0..8)]).unwrap();
    let numbers = Array::from_values(DataType::Int32, [Some(1)]).unwrap();
    let error = builder.dictionary(numbers).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.to_string().contains("the type is int32, not utf8"), "{error}");
}

/// What was refused is no part of an array, also where the caller goes on.
// Requirement: SAF-2
#[test]
fn nothing_is_made_after_a_refusal() {
    let of = |field| Schema::batch([Field::new("x", field, true)]).unwrap();
    let begun = |schema: &Schema| {
        let mut builder = Array::builder_within(schema, Buffer::from(vec![0_i32; 4]));
        builder.node(2, 0, [None]).unwrap();
        builder
    };
    let numbers = of(DataType::Int32);

    // Shorter than the rows, of which a batch would show two.
    let mut builder = begun(&numbers);
    builder.node(1, 0, [None, Some(0..4)]).unwrap_err();
    let error = builder.node(2, 0, [None, Some(0..8)]).unwrap_err();
    assert!(error.to_string().contains("given before was refused"), "{error}");
    builder.finish_ready().unwrap_err();

    // Of too few buffers, and outside of the memory.
    for places in [&[None][..], &[None, Some(12..20)]] {
        let mut builder = begun(&numbers);
        builder.node(2, 0, places.iter().cloned()).unwrap_err();
        builder.finish_ready().unwrap_err();
    }

    // An iterator that panics.
    let mut builder = begun(&numbers);
    let places = std::iter::once_with(|| panic!("no place"));
    let given = std::panic::AssertUnwindSafe(|| builder.node(2, 0, places));
    std::panic::catch_unwind(given).unwrap_err();
    builder.finish_ready().unwrap_err();

    // A dictionary of another type, and one where none is missing.
    let coded = of(DataType::dictionary(IndexType::Int32, DataType::Utf8));
    let other = || Array::from_values(DataType::Int32, [Some(1)]).unwrap();
    let mut builder = begun(&coded);
    builder.node(2, 0, [None, Some(0..8)]).unwrap();
    builder.dictionary(other()).unwrap_err();
    builder.finish_ready().unwrap_err();
    let mut builder = begun(&numbers);
    builder.dictionary(other()).unwrap_err();
    builder.finish_ready().unwrap_err();
}
