"""Arrays and batches as objects: what they say of themselves, and what can be done with them."""

import pyarrow as pa
import pytest

import arrow_device as ad

BATCH = pa.record_batch({"x": [1, 2, 3], "y": ["a", None, "c"]})


def test_an_array_says_what_it_is():
    a = ad.array(pa.array([1, None, 3]))
    assert (len(a), a.type, a.null_count, a.device, a.ready) == (3, "int64", 1, ad.device("cpu"), True)
    assert repr(a) == "<arrow_device.Array int64, 3 elements, 1 null, on cpu>"
    assert a.nbytes == 25
    assert a.describe().startswith("on cpu, ready\nroot: int64, 3 elements from 0, 1 null\n")


def test_bytes_are_those_of_what_a_slice_shows():
    a = ad.array(pa.array(range(1000), pa.int64()))
    assert a.nbytes == 8000
    assert a.slice(0, 10).nbytes == 80
    assert ad.array(pa.array(["ten letters"] * 100)).slice(0, 1).nbytes < 40


def test_what_nobody_has_counted_is_none():
    a = ad.array(pa.array([1, None, 3, 4]))
    assert a.slice(1, 2).null_count is None
    assert "nulls not counted" in repr(a.slice(1, 2))


def test_slices_share_the_memory_and_keep_to_the_bounds():
    a = ad.array(pa.array([1, 2, 3, 4]))
    assert pa.array(a.slice(1, 2)).to_pylist() == [2, 3]
    assert pa.array(a.slice(3)).to_pylist() == [4]
    assert pa.array(a[1:-1]).to_pylist() == [2, 3]
    assert pa.array(a[2:]).to_pylist() == [3, 4]
    with pytest.raises(ad.DataError, match=r"elements 3\+2 are not inside an array of 4"):
        a.slice(3, 2)
    with pytest.raises(OverflowError):
        a.slice(-1, 2)
    with pytest.raises(ad.DataError, match="a slice has the step 1 and not 2"):
        a[::2]
    with pytest.raises(TypeError, match="an array has elements"):
        a[0.5]


def test_equality_is_that_of_values():
    a = ad.array(pa.array([1, None, 3]))
    assert a == ad.array(pa.array([0, 1, None, 3])).slice(1, 3)
    assert a != ad.array(pa.array([1, 2, 3]))
    assert a != ad.array(pa.array([1, None, 3], pa.int32()))
    assert a != [1, None, 3]
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_a_batch_has_columns():
    b = ad.record_batch(BATCH)
    assert isinstance(b, ad.Array)
    assert (b.num_rows, b.num_columns, b.column_names) == (3, 2, ["x", "y"])
    assert pa.array(b.column("y")).to_pylist() == ["a", None, "c"]
    assert b.column(-1) == b.column(1) == b.columns[1]
    assert b.schema.names == ["x", "y"]
    with pytest.raises(KeyError, match="z"):
        b.column("z")
    with pytest.raises(IndexError, match="number 2 of 2 is out of range"):
        b.column(2)
    with pytest.raises(TypeError, match="expected a name or a number"):
        b.column(1.5)


def test_what_is_made_of_a_batch_is_a_batch():
    b = ad.record_batch(BATCH)
    assert type(b.slice(1, 2)) is type(b.to_host()) is type(b[1:]) is ad.RecordBatch
    assert b[1:].num_rows == 2
    assert b[1:].column("x") == ad.array(pa.array([2, 3]))


def test_a_batch_can_be_put_together_of_columns():
    b = ad.record_batch({"x": pa.array([1, 2]), "y": pa.array(["a", "b"])})
    assert pa.record_batch(b).to_pydict() == {"x": [1, 2], "y": ["a", "b"]}
    with pytest.raises(ad.DataError):
        ad.record_batch({"x": pa.array([1, 2]), "y": pa.array(["a"])})


def test_what_is_no_struct_is_no_batch():
    with pytest.raises(ad.DataError):
        ad.record_batch(pa.array([1, 2]))
    nulls = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([True, False]))
    with pytest.raises(ad.NotSupportedError, match="1 rows are null as a whole"):
        ad.record_batch(nulls)
    assert ad.array(nulls).null_count == 1


def test_children_and_dictionaries_are_arrays():
    lists = ad.array(pa.array([[1, 2], [3]]))
    assert (lists.num_children, pa.array(lists.child(0)).to_pylist()) == (1, [1, 2, 3])
    with pytest.raises(IndexError):
        lists.child(1)
    words = ad.array(pa.array(["a", "b", "a"]).dictionary_encode())
    assert pa.array(words.dictionary).to_pylist() == ["a", "b"]
    assert lists.dictionary is None


def test_a_batch_shows_its_rows_and_its_tree():
    b = ad.record_batch(BATCH)
    assert repr(b).splitlines() == [
        "<arrow_device.RecordBatch 3 rows, 2 columns, on cpu>",
        "x     | y",
        "int64 | utf8",
        "------+-----",
        "    1 | a",
        "    2 | null",
        "    3 | c",
    ]
    html = b._repr_html_()
    assert html.count("<tr>") == 1 + 3 + 1 + 3 and "utf8" in html and "24 B" in html and "cpu" in html


def test_names_cannot_break_the_html():
    b = ad.record_batch(pa.record_batch({"<script>": [1]}))
    assert "<script>" not in b._repr_html_() and "&lt;script&gt;" in b._repr_html_()


def test_wrong_data_is_found_where_it_is():
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 1)))
    words = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"aa")])
    a = ad.array(words)
    a.validate()
    with pytest.raises(ad.DataError) as caught:
        a.validate(full=True)
    error = caught.value
    assert str(error) == "validate on cpu: invalid data: root: element 1: offset 1 is before 2"
    assert (error.kind, error.device, error.operation, error.place) == (
        "invalid data", "cpu", "validate", "root",
    )


def test_other_objects_are_refused_with_what_they_lack():
    with pytest.raises(TypeError, match="speaks neither the Arrow PyCapsule protocol"):
        ad.array(object())
    with pytest.raises(TypeError, match="nor is it an iterable of arrays"):
        ad.stream(object())
    with pytest.raises(TypeError, match="has no __arrow_c_schema__"):
        ad.schema(object())
    with pytest.raises(ad.DataError, match="several chunks, and an array is one; read it with"):
        ad.array(pa.chunked_array([[1], [2]]))


@pytest.mark.parametrize("kind", [ad.Array, ad.RecordBatch, ad.Tensor, ad.Stream, ad.Schema, ad.Queue])
def test_objects_are_made_by_functions(kind):
    with pytest.raises(TypeError, match="No constructor defined|cannot create"):
        kind()


def test_a_schema_tells_what_it_has():
    field = pa.field("id", pa.int64(), nullable=False, metadata={"unit": "m"})
    s = ad.schema(pa.schema([field, ("name", pa.string())], metadata={"by": "us"}))
    assert (s.names, len(s), s.metadata) == (["id", "name"], 2, {b"by": b"us"})
    first = s.field("id")
    assert (first.name, first.type, first.nullable) == ("id", "int64", False)
    assert first.metadata == {b"unit": b"m"}
    assert first.type.format == "l"
    assert pa.schema(s).equals(pa.schema([field, ("name", pa.string())]), check_metadata=False)
    assert s == ad.schema(s) and s != ad.schema(pa.schema([field]))
    assert {s.field(0).type: 1}[s.field("id").type] == 1
    assert pa.field(first).type == pa.int64()
    with pytest.raises(KeyError):
        s.field("other")


class Reflected:
    """Says itself what it is equal to, when it is asked second."""

    def __eq__(self, other):
        return "asked"


@pytest.mark.parametrize("name", ["array", "batch", "type", "schema"])
def test_what_is_compared_with_others_lets_them_answer(name):
    a, b = ad.array(pa.array([1])), ad.record_batch(BATCH)
    ours = {"array": a, "batch": b, "type": a.type, "schema": a.schema}[name]
    assert ours.__eq__(5) is NotImplemented and (ours == 5) is False and (ours != 5) is True
    assert (ours == Reflected()) == "asked"


def test_an_array_is_equal_to_itself_and_to_the_same_values_wherever_they_are():
    a = ad.array(pa.array([float("nan"), 1.0]))
    assert a == a and a == ad.array(pa.array([float("nan"), 1.0])) and a != a[:1]
    many = ad.array(pa.array(range(50_000)))
    assert many == ad.array(pa.array(range(50_000))) and many != ad.array(pa.array(range(1, 50_001)))


def test_a_type_is_found_by_its_text():
    a = ad.array(pa.array([[1]]))
    assert {"list<item: int64>": "found"}[a.type] == "found" and hash(a.type) == hash(str(a.type))


def test_children_are_counted_from_the_end_too():
    b = ad.record_batch(BATCH)
    assert b.child(-1) == b.child(1)
    for index in (2, -3):
        with pytest.raises(IndexError, match="has 2 children"):
            b.child(index)


def test_a_column_is_asked_for_by_its_name():
    b = ad.record_batch(BATCH)
    assert type(b["y"]) is ad.Array and b["y"] == b.column("y")
    assert type(b[1:]) is ad.RecordBatch and b[1:].num_rows == 2
    with pytest.raises(KeyError, match="z"):
        b["z"]
    with pytest.raises(TypeError, match="cut with a slice"):
        b[0]


def test_slices_of_batches_go_to_those_who_refuse_an_offset():
    [batch] = ad.stream(pa.table(BATCH))
    for part in (batch[1:3], batch.slice(1, 2), ad.record_batch(BATCH)[1:3], ad.array(pa.array(BATCH))[1:3]):
        assert pa.record_batch(ad.record_batch(part)).equals(BATCH.slice(1, 2))


def test_a_batch_is_a_stream_of_one():
    b = ad.record_batch(BATCH)
    assert pa.RecordBatchReader.from_stream(b).read_all().equals(pa.table(BATCH))
    assert pa.RecordBatchReader.from_stream(b[1:]).read_all().equals(pa.table(BATCH.slice(1)))
    assert not hasattr(ad.array(pa.array([1])), "__arrow_c_stream__")


def test_a_batch_on_a_device_is_a_stream_where_copies_are_allowed(device):
    b = ad.record_batch(BATCH).to(device)
    if device != ad.device("cpu"):
        with pytest.raises(ad.NotSupportedError, match="__arrow_c_stream__ is for host memory"):
            b.__arrow_c_stream__()
    assert pa.RecordBatchReader.from_stream(b.with_host_copies()).read_all().equals(pa.table(BATCH))


@pytest.mark.parametrize("rows", [pa.table(BATCH).schema.empty_table(), pa.table({"x": pa.chunked_array([], "int64")})])
def test_a_result_without_rows_is_a_batch_without_rows(rows):
    b = ad.record_batch(rows)
    assert (b.num_rows, b.column_names) == (0, rows.column_names)
    assert pa.record_batch(b).schema.equals(rows.schema)
    assert pa.table({"x": pa.array(ad.array(pa.chunked_array([], pa.list_(pa.string()))))}).num_rows == 0


def test_a_dictionary_of_columns_may_change_meanwhile():
    columns = {}

    class Column:
        def __arrow_c_array__(self, requested_schema=None):
            columns["z"] = pa.array([2])
            return pa.array([1]).__arrow_c_array__()

    columns.update(a=Column(), b=pa.array([3]))
    assert ad.record_batch(columns).column_names == ["a", "b"]


def test_what_stands_for_nulls_is_told():
    with pytest.raises(ad.DataError, match='`nulls` is "nan" or an element, such as 0, and not "zero"'):
        ad.array(pa.array([1, None])).to_tensor(nulls="zero")
