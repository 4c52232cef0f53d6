"""Parts put together: columns chosen and renamed, arrays one behind the other, schemas and devices of other libraries."""

import polars as pl
import pyarrow as pa
import pytest

import arrow_device as ad
from test_values import CASES, IDS

BATCH = pa.record_batch({"x": [1, 2, 3], "y": ["a", None, "c"], "z": [0.5, 1.5, 2.5]}).replace_schema_metadata({"by": "us"})


def same(one, other):
    assert one.schema == other.schema and one == other


def test_columns_are_selected_by_name_or_place_without_a_copy():
    b = ad.record_batch(BATCH)[1:]
    s = b.select(["z", 0])
    assert type(s) is ad.RecordBatch and s.column_names == ["z", "x"] and s.num_rows == 2
    assert pa.record_batch(s).equals(BATCH.slice(1).select(["z", "x"]), check_metadata=True)
    assert pa.record_batch(s).column(1).buffers()[1].address == BATCH.column(0).buffers()[1].address
    assert b.select(name for name in ("y",)).to_pylist() == [{"y": None}, {"y": "c"}]
    none = b.select([])
    assert (none.num_rows, none.num_columns) == (2, 0)
    with pytest.raises(KeyError, match="other"):
        b.select(["other"])
    with pytest.raises(IndexError):
        b.select([3])
    with pytest.raises(TypeError, match="a list of names"):
        b.select("x")


def test_the_names_of_many_columns_are_looked_up_in_little_time():
    # A search for each name took the square of their number: minutes for so many.
    names = [f"c{number}" for number in range(40_000)]
    b = ad.record_batch(pa.record_batch([pa.array([number]) for number in range(40_000)], names=names))
    assert b.select(reversed(names)).column_names == names[::-1]
    changed = b.rename({name: name.upper() for name in names[1:]})
    assert changed.column_names[:2] == ["c0", "C1"] and changed.column_names[-1] == "C39999"
    # The first one of a name is selected, and all of a name are renamed.
    twice = ad.record_batch(pa.record_batch([pa.array([1]), pa.array([2])], names=["x", "x"]))
    assert twice.select(["x"]).to_pylist() == [{"x": 1}] and twice.rename({"x": "y"}).column_names == ["y", "y"]


def test_columns_are_renamed_all_or_some():
    b = ad.record_batch(BATCH)
    assert b.rename(["a", "b", "c"]).column_names == ["a", "b", "c"]
    r = b.rename({"y": "why"})
    theirs = BATCH.rename_columns(["x", "why", "z"]).replace_schema_metadata({"by": "us"})
    assert pa.record_batch(r).equals(theirs, check_metadata=True)
    assert b.column_names == ["x", "y", "z"]
    assert b.rename({"x": "y", "y": "x"}).column_names == ["y", "x", "z"]
    with pytest.raises(KeyError, match="other"):
        b.rename({"other": "x"})
    with pytest.raises(ad.DataError, match="1 names are not those of 3 columns"):
        b.rename(["x"])
    with pytest.raises(TypeError):
        b.rename("abc")
    with pytest.raises(TypeError):
        b.rename([1, 2, 3])


def test_columns_on_a_device_are_chosen_there(device):
    b = ad.record_batch(BATCH).to(device)
    s = b.rename({"z": "last"}).select(["last", "y"])
    assert s.device == device
    assert pa.record_batch(s.to_host()).to_pydict() == {"last": [0.5, 1.5, 2.5], "y": ["a", None, "c"]}


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_arrays_of_every_type_are_put_together(kind, values):
    a = ad.array(values, type=kind)
    whole = ad.concat([a, a[1:], a[:0], a])
    whole.validate(full=True)
    assert whole.type == a.type and whole.device == ad.device("cpu")
    assert whole.to_pylist() == [*values, *values[1:], *values]
    rows = ad.record_batch({"x": a, "y": a})
    both = ad.concat([rows[1:], rows])
    assert type(both) is ad.RecordBatch and both.schema == rows.schema
    assert both.to_pylist() == [*rows[1:].to_pylist(), *rows.to_pylist()]
    nested = ad.array(pa.array([[0], [0, 0], None], pa.list_(pa.int8())))
    assert ad.concat([nested[1:], nested]).to_pylist() == [[0, 0], None, [0], [0, 0], None]


def test_names_and_metadata_are_those_of_the_first():
    b = ad.record_batch(BATCH)
    same(ad.concat([b]), b)
    same(ad.concat([b[:1], b[1:]]), b)
    uuid = ad.schema(pa.field("id", pa.binary(1), metadata={"ARROW:extension:name": "ours"}))
    one = ad.array([b"a"], type=uuid)
    assert ad.concat([one, one]).schema == one.schema


def test_dictionaries_are_kept_where_they_are_the_same_and_put_together_where_not():
    a = ad.array(pa.array(["a", "b", "a"]).dictionary_encode())
    assert len(ad.concat([a[:1], a[1:]]).dictionary) == 2
    other = ad.array(pa.array(["c", "a"]).dictionary_encode())
    both = ad.concat([a, other])
    assert both.to_pylist() == ["a", "b", "a", "c", "a"] and len(both.dictionary) == 4
    many = [ad.array([f"{part}-{number}" for number in range(100)], type=pa.dictionary(pa.int8(), "string")) for part in "ab"]
    with pytest.raises(ad.DataError, match="is more than int8 holds"):
        ad.concat(many)


def test_what_is_not_of_one_type_is_not_put_together():
    with pytest.raises(ad.DataError, match="array 1 is of utf8, and the first one of int64"):
        ad.concat([ad.array([1]), ad.array(["a"])])
    with pytest.raises(ad.DataError, match="no array to put together"):
        ad.concat([])
    with pytest.raises(TypeError):
        ad.concat([5])
    with pytest.raises(TypeError):
        ad.concat(5)
    assert ad.concat([pa.array([1]), ad.array([2])]).to_pylist() == [1, 2]
    assert ad.concat(ad.stream(pa.table({"x": pa.chunked_array([[1], [2, 3]])}))).to_pylist() == [{"x": n} for n in (1, 2, 3)]


def test_what_broken_data_leads_to_is_found():
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), ["a"], safe=False)
    with pytest.raises(ad.DataError, match="key 7"):
        ad.concat([keys, keys])


def test_arrays_on_a_device_are_put_together_where_that_was_asked_for(device):
    a = ad.array([1, None, 3]).to(device)
    if device != ad.device("cpu"):
        with pytest.raises(ad.NotSupportedError, match="concat is for host memory"):
            ad.concat([a, a])
    assert ad.concat([a.with_host_copies(), ad.array([4])]).to_pylist() == [1, None, 3, 4]
    there = ad.concat([a, ad.array([4])], device=device)
    assert there.device == device and there.to_host().to_pylist() == [1, None, 3, 4]


def test_a_schema_is_taken_of_whatever_has_one():
    table = pa.table(BATCH)
    for of in (table, BATCH, table.schema, table.to_reader(), ad.record_batch(BATCH), ad.stream(table)):
        assert ad.schema(of).names == ["x", "y", "z"]
    reader = table.to_reader()
    ad.schema(reader)
    assert reader.read_all().num_rows == 3
    with pytest.raises(TypeError, match="has no __arrow_c_schema__"):
        ad.schema(5)


def test_a_schema_is_a_list_of_fields():
    s = ad.schema(BATCH.schema)
    assert [field.name for field in s] == s.names == ["x", "y", "z"] and s["y"].type == "utf8" == s[1].type
    assert [str(field.type) for field in ad.schema(pa.list_(pa.int8()))] == ["int8"]
    with pytest.raises(KeyError):
        s["other"]


class LibrarysDevice:
    """As `torch.device` is."""

    def __init__(self, type, index=None):
        self.type, self.index = type, index


def test_devices_of_other_libraries_are_taken_where_a_device_is_asked_for():
    assert ad.device(LibrarysDevice("cuda", 1)) == ad.device("cuda:1")
    assert ad.device(LibrarysDevice("cuda")) == ad.device("cuda:0")
    assert ad.device(LibrarysDevice("cpu")) == ad.device(LibrarysDevice("cpu", 0)) == ad.device("cpu")
    assert ad.array([1]).to(LibrarysDevice("cpu", 0)).device == ad.device("cpu")
    assert ad.array([1], device=LibrarysDevice("cpu")).device == ad.device("cpu")
    with pytest.raises(ValueError, match="meta"):
        ad.device(LibrarysDevice("meta"))
    for other in (LibrarysDevice(5), LibrarysDevice("cuda", "1"), LibrarysDevice("cuda", []), [1], object()):
        with pytest.raises(TypeError, match="expected a device"):
            ad.device(other)


def test_integers_of_polars_that_arrow_has_not_say_what_to_do():
    for series in (pl.Series([1, None], dtype=pl.Int128), pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)})):
        with pytest.raises(ad.DataError, match=r"no Arrow type; cast it, such as to polars.Decimal\(38, 0\)"):
            ad.array(series)
    cast = pl.Series([1, None], dtype=pl.Int128).cast(pl.Decimal(38, 0))
    assert [None if value is None else int(value) for value in ad.array(cast).to_pylist()] == [1, None]


def test_progress_is_that_of_an_iterator():
    """`tqdm` and its like show how far a loop is."""
    seen = []

    def progress(chunks, total):
        for number, chunk in enumerate(chunks, 1):
            seen.append(f"{number} of {total}")
            yield chunk

    table = pa.table({"x": pa.chunked_array([[1], [2], [3]])})
    chunks = ad.stream(table).to("ext_dev:0")
    there = [chunk for chunk in progress(chunks, total=3)]
    assert seen == ["1 of 3", "2 of 3", "3 of 3"] and all(chunk.device == ad.device("ext_dev:0") for chunk in there)
