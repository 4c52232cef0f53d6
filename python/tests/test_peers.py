"""The real libraries: every type that each has, by every protocol that it speaks, in both directions."""

import datetime
import decimal

import arro3.core
import duckdb
import nanoarrow
import nanoarrow.device
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import arrow_device as ad
from support import ArrowDeviceArray, DeviceStreamOnly, OnDevice, live, struct_of, until_no_more_than

DAY = datetime.date(2024, 2, 29)
ARRAYS = [
    pa.nulls(3),
    pa.array([True, None, False]),
    *(pa.array([0, None, 2], kind()) for kind in (
        pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64, pa.float32, pa.float64,
    )),
    pa.array(np.array([0, 1.5], "float16")),
    *(pa.array([decimal.Decimal("1.25"), None], kind(7, 2)) for kind in (
        pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256,
    )),
    pa.array([DAY, None], pa.date32()),
    pa.array([DAY, None], pa.date64()),
    *(pa.array([1, None], pa.time32(unit)) for unit in ("s", "ms")),
    *(pa.array([1, None], pa.time64(unit)) for unit in ("us", "ns")),
    *(pa.array([1, None], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.array([1, None], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    *(pa.array(["a", None, "a text of more than twelve bytes"], kind()) for kind in (
        pa.string, pa.large_string, pa.string_view,
    )),
    *(pa.array([b"a", None, b"bytes, and more than twelve"], kind()) for kind in (
        pa.binary, pa.large_binary, pa.binary_view,
    )),
    pa.array([b"abc", None], pa.binary(3)),
    *(pa.array([[1, None], None, []], kind(pa.int32())) for kind in (
        pa.list_, pa.large_list, pa.list_view, pa.large_list_view,
    )),
    pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["b"])]),
    pa.array(["a", "b", None, "a"]).dictionary_encode(),
    pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None])),
    pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8).reshape(2, 2, 2)),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))),
    pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'])),
]
WAYS = {"whole": lambda a: a, "sliced": lambda a: a.slice(1), "empty": lambda a: a.slice(0, 0)}
name_type = lambda array: str(array.type)[:40] if isinstance(array, pa.Array) else None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("array", ARRAYS, ids=name_type)
def test_pyarrow_has_the_same_array_again(array, way):
    array = WAYS[way](array)
    taken = ad.array(array)
    taken.validate(full=True)
    for again in (pa.array(taken), pa.array(OnDevice(taken))):
        again.validate(full=True)
        assert again.equals(array) and again.type == array.type
    assert (taken.type, len(taken)) == (ad.array(OnDevice(taken)).type, len(array))
    [chunk] = pa.chunked_array(ad.stream([array])).chunks
    assert chunk.equals(array)
    assert pa.field(taken.schema).type == array.type
    repr(taken), taken.describe(), taken._repr_html_(), taken.nbytes
    if not pa.types.is_null(array.type):
        assert taken.null_count in (None, array.null_count)


def test_pyarrow_tables_readers_and_batches_are_taken():
    table = pa.table({"x": [1, 2], "y": ["a", None]}, metadata={"by": "us"})
    assert pa.table(ad.stream(table)).equals(table, check_metadata=True)
    assert pa.table(ad.stream(table.to_reader())).equals(table)
    assert pa.record_batch(ad.record_batch(table.to_batches()[0])).to_pydict() == table.to_pydict()
    assert pa.RecordBatchReader.from_stream(ad.stream(table)).read_all().equals(table)
    assert pa.schema(ad.schema(table.schema)).equals(table.schema, check_metadata=True)


@pytest.mark.parametrize("series", [
    polars.Series([1, None, 3]),
    polars.Series([1.5, None]),
    polars.Series(["a", None, "a text of more than twelve bytes"]),
    polars.Series([b"a", None]),
    polars.Series([True, None]),
    polars.Series([DAY, None]),
    polars.Series([datetime.datetime(2024, 2, 29), None]),
    polars.Series([datetime.timedelta(1), None]),
    polars.Series([datetime.time(1), None]),
    polars.Series([[1, 2], None, []]),
    polars.Series([{"x": 1, "y": "a"}, {"x": None, "y": "b"}]),
    polars.Series(["a", "b", None], dtype=polars.Categorical),
    polars.Series(["a", "b"], dtype=polars.Enum(["a", "b"])),
    polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int32, 2)),
    polars.Series([decimal.Decimal("1.25")]),
    polars.Series([], dtype=polars.Int8),
], ids=lambda series: str(series.dtype))
def test_polars_has_the_same_series_again(series):
    assert polars.Series(ad.stream(series)).equals(series)
    frame = series.to_frame("x")
    assert polars.DataFrame(ad.stream(frame)).equals(frame)
    if len(series):
        taken = ad.array(series)
        taken.validate(full=True)
        assert polars.Series(taken).equals(series)
        batch = ad.record_batch(frame)
        assert polars.DataFrame(batch).equals(frame)


def test_null_columns_of_polars_are_taken_whose_one_buffer_is_its_own():
    nulls = polars.Series([None, None, None])
    taken = ad.array(nulls)
    taken.validate(full=True)
    assert (len(taken), taken.null_count, taken.to_pylist()) == (3, 3, [None] * 3)
    assert polars.Series(taken).equals(nulls) and pa.array(taken).equals(pa.nulls(3))
    frame = polars.DataFrame({
        "x": [1, 2, 3], "nulls": nulls, "lists": [[None], [], [None, None]], "pairs": [{"n": None, "y": 1}] * 3,
    })
    batch = ad.record_batch(frame)
    batch.validate(full=True)
    assert polars.DataFrame(batch).equals(frame) and batch.to_pylist() == frame.to_dicts()
    table = pa.table(frame.to_arrow(compat_level=polars.CompatLevel.newest()))
    assert pa.table(ad.stream(frame)).equals(pa.table(batch)) and pa.table(batch).to_pylist() == table.to_pylist()
    assert batch.to("ext_dev:0").to_host() == batch and batch[1:].to_pylist() == frame.to_dicts()[1:]
    assert ad.concat([batch, batch]).to_pylist() == 2 * frame.to_dicts()


def test_what_has_no_rows_is_a_batch_without_rows():
    cases = [
        (pandas.DataFrame(), []),
        (pandas.DataFrame({"x": pandas.Series([], dtype="int64")}), ["x"]),
        (duckdb.sql("select 1 a where false"), ["a"]),
        (polars.DataFrame(), []),
        (polars.DataFrame({"x": polars.Series([], dtype=polars.Int8)}), ["x"]),
        (pa.table({"x": pa.chunked_array([], pa.int64())}), ["x"]),
        (pa.table({"x": []}), ["x"]),
    ]
    for empty, names in cases:
        batch = ad.record_batch(empty)
        batch.validate(full=True)
        assert (batch.num_rows, batch.column_names, batch.to_pylist()) == (0, names, [])
        assert pa.record_batch(batch).num_rows == 0 and pa.record_batch(batch).schema.names == names
        assert len(ad.array(empty)) == 0
        assert batch.schema.names == names and "0 rows" in repr(batch) and not repr(batch).endswith("\n")
    for empty, type in ((pa.chunked_array([], pa.int64()), "int64"), (polars.Series([], dtype=polars.Int8), "int8")):
        assert (len(ad.array(empty)), ad.array(empty).type) == (0, ad.array([], type=type).type)
    # A reader's schema is known, too, where nothing is left of it.
    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int8()}), [])
    assert ad.record_batch(reader).column_names == ["x"]


def test_duckdb_reads_and_is_read():
    query = "select i, i::varchar as text, i::decimal(9, 2) as number, [i] as list, {'a': i} as pair from range(5000) t(i)"
    table = duckdb.sql(query).to_arrow_table()
    assert pa.table(ad.stream(duckdb.sql(query))).equals(table)
    batch = ad.record_batch({"x": pa.array([1, 2, 3])})
    x = pa.table(ad.stream(batch))
    assert duckdb.sql("select sum(x) from x").fetchall() == [(6,)]
    given = ad.stream(DeviceStreamOnly(ad.stream(table)))
    assert duckdb.sql("select sum(i) from given").fetchall() == [(sum(range(5000)),)]


def test_nanoarrow_reads_and_is_read():
    given = nanoarrow.c_array([1, None, 3], nanoarrow.int32())
    taken = ad.array(given)
    assert pa.array(taken).to_pylist() == [1, None, 3]
    assert nanoarrow.Array(taken).to_pylist() == [1, None, 3]
    device = nanoarrow.device.c_device_array(given)
    assert pa.array(ad.array(device)).to_pylist() == [1, None, 3]
    assert nanoarrow.device.c_device_array(taken).device_type_id == 1
    assert list(nanoarrow.ArrayStream(ad.stream([taken, taken])).read_all().iter_py()) == [1, None, 3] * 2
    assert ad.schema(nanoarrow.schema(nanoarrow.int32())).type == "int32"
    texts = nanoarrow.c_array(["a", None], nanoarrow.string())
    assert pa.array(ad.array(texts)).to_pylist() == ["a", None]


def test_nanoarrow_takes_what_lives_on_a_device_without_looking_at_it(software):
    there = ad.array(pa.array([1, 2, 3])).to(software)
    seen = nanoarrow.device.c_device_array(there)
    capsule = there.__arrow_c_device_array__()[1]
    number = struct_of(capsule, ArrowDeviceArray).device_id
    assert (seen.device_type_id, seen.device_id, seen.array.length) == (12, number, 3)
    assert pa.array(ad.array(seen).to_host()).to_pylist() == [1, 2, 3]


def test_arro3_reads_and_is_read():
    given = arro3.core.Array([1, None, 3], arro3.core.DataType.int64())
    assert arro3.core.Array.from_arrow(ad.array(given)) == given
    table = arro3.core.Table.from_arrow(ad.stream(pa.table({"x": [1, 2], "y": ["a", None]})))
    assert pa.table(ad.stream(table)).to_pydict() == {"x": [1, 2], "y": ["a", None]}
    batch = arro3.core.RecordBatch.from_arrow(ad.record_batch({"x": pa.array([1])}))
    assert ad.record_batch(batch).column_names == ["x"]


def test_pandas_is_read():
    frame = pandas.DataFrame({"x": [1, 2], "y": ["a", None]})
    assert pa.table(ad.stream(frame)).column("x").to_pylist() == [1, 2]
    assert len(ad.record_batch(frame)) == 2
    again = pandas.DataFrame.from_arrow(ad.stream(frame))
    assert again["x"].tolist() == [1, 2]


def test_numpy_has_no_arrow_and_is_taken_by_dlpack():
    values = np.arange(12, dtype="int16").reshape(3, 4)
    taken = ad.array(values)
    assert len(taken) == 3 and (np.from_dlpack(taken) == values).all()
    assert np.shares_memory(np.from_dlpack(taken), values)
    assert (np.from_dlpack(ad.array(values[:, ::2])) == values[:, ::2]).all()


def test_pyarrow_takes_tensors_and_gives_them():
    values = pa.array([1.5, 2.5])
    assert pa.Array.from_dlpack(ad.array(values)).equals(values)
    assert pa.array(ad.from_dlpack(values).to_array()).equals(values)
    tensor = pa.Tensor.from_numpy(np.arange(6).reshape(2, 3))
    assert np.from_dlpack(ad.from_dlpack(tensor)).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(TypeError):
        # It says so about nulls, whatever the protocol asks.
        ad.from_dlpack(pa.array([1, None]))


def test_other_libraries_leave_nothing_behind():
    frame, before = polars.DataFrame({"x": [1, 2], "y": ["a", None]}), live()
    for _ in range(20):
        polars.DataFrame(ad.stream(frame))
        pa.table(ad.stream(frame))
        nanoarrow.Array(ad.array(pa.array([1])))
        np.from_dlpack(ad.array(np.arange(3)))
    until_no_more_than(before, live)
