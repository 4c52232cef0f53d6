//! Several arrays as one.

use crate::{Array, DataType, ErrorKind, Field, IndexType, Result, UnionMode, Value};

fn values(array: &Array) -> Vec<Value> {
    let host = array.host().unwrap();
    (0..array.len()).map(|index| host.value(index).unwrap()).collect()
}

fn numbers(values: &[i32]) -> Array {
    Array::from_values(DataType::Int32, values.iter().copied().map(Some)).unwrap()
}

/// An array of each way in which elements lie.
fn arrays() -> Result<Vec<Array>> {
    let words = Array::from_texts(DataType::Utf8View, [Some("a"), None, Some("thirteen bytes")])?;
    let bits = Array::from_bools([Some(true), None, Some(false)])?;
    let lists = |of, lengths: &[Option<usize>]| {
        Array::from_lists(of, lengths.iter().copied(), numbers(&[1, 2, 3, 4, 5, 6]))
    };
    let fields =
        [Field::new("number", DataType::Int32, true), Field::new("word", DataType::Utf8View, true)];
    let union = |mode, fields_of: [Array; 2]| {
        Array::from_variants(DataType::union(mode, fields.clone()), [1, 0, 1], fields_of)
    };
    let sparse = union(UnionMode::Sparse, [numbers(&[1, 2, 3]), words.clone()])?;
    let dense = union(UnionMode::Dense, [numbers(&[1]), words.slice(0, 2)?])?;
    let keys = DataType::dictionary(IndexType::Int8, DataType::Utf8View);
    let runs = DataType::run_end_encoded(DataType::Int32, DataType::Utf8View);
    Ok(vec![
        Array::nulls(3)?,
        lists(DataType::list(DataType::Int32), &[Some(2), None, Some(1)])?,
        lists(DataType::list_view(DataType::Int32), &[Some(2), None, Some(1)])?,
        lists(DataType::fixed_size_list(DataType::Int32, 2), &[Some(2), None, Some(2)])?,
        Array::from_fields(
            DataType::struct_(fields),
            [true, false, true],
            [numbers(&[1, 2, 3]), words.clone()],
        )?,
        Array::from_keys(keys, [Some(2), None, Some(0)], words.clone())?,
        Array::from_runs(runs, [2, 1, 3], words.clone())?,
        Array::from_values(DataType::Decimal256 { precision: 76, scale: 2 }, [Some([7_u8; 32])])?,
        sparse,
        dense,
        words,
        bits,
    ])
}

#[test]
fn elements_come_one_array_after_the_other() -> Result<()> {
    for array in arrays()? {
        let parts = [array.clone(), array.slice(1, array.len() - 1)?, array.slice(0, 0)?, array];
        let whole = Array::concat(&parts)?;
        whole.validate()?;
        let expected: Vec<_> = parts.iter().flat_map(values).collect();
        assert_eq!(values(&whole), expected, "{}", whole.data_type());
    }
    Ok(())
}

// Requirement: SAF-38
#[test]
fn dictionaries_of_many_columns_are_put_together_once() -> Result<()> {
    let some = Array::from_texts(DataType::Utf8, [Some("a"), Some("b")])?;
    let more = Array::from_texts(DataType::Utf8, [Some("c")])?;
    let of = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let columns = DataType::struct_(["x", "y"].map(|name| Field::new(name, of.clone(), true)));
    let rows = |values: [&Array; 2]| {
        let column = |values: &Array| Array::from_keys(of.clone(), [Some(0)], values.clone());
        let fields = [column(values[0])?, column(values[1])?];
        Array::from_fields(columns.clone(), [true], fields)
    };
    for (first, second, are_one) in [
        ([&some, &some], [&some, &some], true),
        ([&some, &some], [&more, &more], true),
        ([&some, &more], [&more, &some], false),
    ] {
        let parts = [rows(first)?, rows(second)?];
        let whole = Array::concat(&parts)?;
        let dictionary = |column| Ok::<_, crate::Error>(whole.child(column)?.dictionary());
        let (x, y) = (dictionary(0)?.unwrap(), dictionary(1)?.unwrap());
        assert_eq!(x.is_same(&y), are_one);
        assert_eq!(values(&whole), [values(&parts[0]), values(&parts[1])].concat());
    }
    Ok(())
}

#[test]
fn dictionaries_are_kept_where_they_are_the_same() -> Result<()> {
    let words = Array::from_texts(DataType::Utf8, [Some("a"), Some("b")])?;
    let of = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let one = Array::from_keys(of.clone(), [Some(1)], words.clone())?;
    let same = Array::concat(&[one.clone(), one.clone()])?;
    assert_eq!(same.dictionary().map(|words| words.len()), Some(2));
    let other = Array::from_keys(of, [Some(0)], words.slice(1, 1)?)?;
    let both = Array::concat(&[one, other])?;
    assert_eq!(both.dictionary().map(|words| words.len()), Some(3));
    assert_eq!(both.host()?.value(1)?, Value::Text("b".into()));
    Ok(())
}

#[test]
fn other_types_and_no_array_are_refused() {
    let words = Array::from_texts(DataType::Utf8, [Some("a")]).unwrap();
    for arrays in [vec![], vec![numbers(&[1]), words]] {
        let error = Array::concat(&arrays).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn the_buffers_of_a_result_have_no_more_bytes_than_were_asked_for() -> Result<()> {
    let hundred = || numbers(&(0..100).collect::<Vec<_>>());
    let text = "a text that is named often".repeat(40);
    let one_text = Array::from_texts(DataType::Utf8View, [Some(&*text)])?;
    let named = || {
        let lists = Array::builder(DataType::list_view(DataType::Utf8View)).len(50);
        let places = [None, Some(vec![0; 50].into()), Some(vec![1; 50].into())];
        lists.buffers(places).children([one_text.clone()]).finish_ready()
    };
    let bits = || Array::from_bools(vec![Some(true); 800]);
    let fixed = || Array::from_bytes(DataType::FixedSizeBinary(4), [Some([7_u8; 4]); 9]);
    // A null has bytes in an array of a fixed size.
    let nulls = || Array::from_bytes(DataType::FixedSizeBinary(4), [None::<[u8; 4]>; 9]);
    for (parts, most) in [
        // Each with a bitmap that may be needed.
        (vec![hundred(), hundred()], 200 * 4 + 25),
        (vec![bits()?; 2], 2 * 200),
        (vec![nulls()?; 2], 18 * 4),
        (vec![fixed()?; 2], 2 * 36),
        // Offsets or sizes, views and bitmaps, and the text as often as it is named.
        (vec![named()?; 2], 100 * (4 + 4 + 16 + 1040) + 2 * 13),
    ] {
        let whole = Array::concat_at_most(&parts, most)?;
        assert!(whole.equals(&Array::concat(&parts)?)?, "{}", whole.data_type());
        let error = Array::concat_at_most(&parts, most - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{}", whole.data_type());
    }
    Ok(())
}

/// Lists of twice the same list, so many levels deep.
fn doubled(levels: usize) -> Result<Array> {
    let mut array = numbers(&[1]);
    for _ in 0..levels {
        let len = array.len() as i32;
        let lists = Array::builder(DataType::list_view(array.data_type().clone())).len(2);
        let places = [None, Some(vec![0, 0].into()), Some(vec![len, len].into())];
        array = lists.buffers(places).children([array]).finish_ready()?;
    }
    Ok(array)
}

// Requirement: SAF-38
#[test]
fn arrays_of_a_few_bytes_take_no_more_than_their_bound() -> Result<()> {
    // 2^58 where there are 64 bits.
    let many = (usize::MAX >> 6) + 1;
    let without_bytes = |of: DataType, children: Vec<Array>| {
        let buffers = if matches!(of, DataType::FixedSizeBinary(_)) { 2 } else { 1 };
        Array::builder(of).len(many).buffers(vec![None; buffers]).children(children).finish_ready()
    };
    let runs = DataType::run_end_encoded(DataType::Int64, DataType::Utf8);
    let endless = [
        Array::nulls(many)?,
        Array::from_runs(runs, [many], Array::from_texts(DataType::Utf8, [Some("a")])?)?,
        without_bytes(DataType::struct_([]), Vec::new())?,
        without_bytes(
            DataType::struct_([Field::new("n", DataType::Null, true)]),
            vec![Array::nulls(many)?],
        )?,
        without_bytes(DataType::FixedSizeBinary(0), Vec::new())?,
        without_bytes(DataType::fixed_size_list(DataType::Null, 0), vec![Array::nulls(0)?])?,
        without_bytes(DataType::fixed_size_list(DataType::Null, 4), vec![Array::nulls(4 * many)?])?,
    ];
    for array in endless {
        let whole = Array::concat(&[array.slice(1, many - 1)?, array.slice(0, 1)?])?;
        assert_eq!(whole.len(), many, "{}", whole.data_type());
        whole.validate()?;
        let error = Array::concat(&vec![array; 65]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    let keys = DataType::dictionary(IndexType::Int64, DataType::Null);
    let one_key = || Array::from_keys(keys.clone(), [Some(0)], Array::nulls(many)?);
    let dictionaries = (0..65).map(|_| one_key()).collect::<Result<Vec<_>>>()?;
    let text = "a text of many bytes".repeat(1000);
    let one_view = Array::from_texts(DataType::Utf8View, [Some(&*text)])?;
    let named = |count: usize| {
        let lists = Array::builder(DataType::list_view(DataType::Utf8View)).len(count);
        let places = [None, Some(vec![0; count].into()), Some(vec![1; count].into())];
        lists.buffers(places).children([one_view.clone()]).finish_ready()
    };
    let mut refused = vec![dictionaries, vec![doubled(40)?]];
    refused.push(vec![Array::concat(&[named(10)?])?; 2]);
    // A list of one text takes eight bytes, and the text 20,000.
    let few = refused.pop().unwrap();
    assert_eq!(Array::concat(&few)?.len(), 20);
    for parts in refused {
        let error = Array::concat(&parts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    let shallow = doubled(10)?;
    assert!(Array::concat(std::slice::from_ref(&shallow))?.equals(&shallow)?);
    Ok(())
}
