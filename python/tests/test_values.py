"""Elements as Python values, and arrays of Python values."""

import datetime as dt
import decimal
import itertools
import subprocess
import sys
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import Numbers, live

D = decimal.Decimal
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 59, 123456)
POINT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
UNION = [pa.field("number", pa.int32()), pa.field("text", pa.string())]

#: Each type, with values as Python has them.
CASES = [
    (pa.null(), [None, None]),
    (pa.bool_(), [True, None, False]),
    *((kind, [0, None, 127]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, [0, None, 255]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    (pa.uint64(), [(1 << 64) - 1]),
    (pa.float16(), [0.5, None, -65504.0, 2.0**-24]),
    (pa.float32(), [0.5, None, float("inf")]),
    (pa.float64(), [0.1, None, -0.0, 1e300]),
    *((kind, [D("1.50"), None, D("-123.45")])
      for kind in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(50, 2))),
    (pa.decimal128(5, -2), [D("1.5E3"), D("-7.00E4")]),
    (pa.decimal256(76, 0), [D("9" * 76), D("-" + "9" * 76), D(0)]),
    (pa.date32(), [dt.date(2024, 2, 29), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.date64(), [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)]),
    (pa.time32("s"), [dt.time(23, 59, 59), None]),
    (pa.time32("ms"), [dt.time(0, 0, 0, 999000)]),
    (pa.time64("us"), [dt.time(12, 30, 59, 123456)]),
    (pa.time64("ns"), [dt.time(12, 30, 59, 123456)]),
    (pa.timestamp("s"), [MOMENT.replace(microsecond=0), None, dt.datetime(1, 1, 1)]),
    *((pa.timestamp(unit), [MOMENT, None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]) for unit in ("us", "ns")),
    (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=dt.timezone.utc)]),
    (pa.timestamp("us", "Europe/Paris"), [MOMENT.replace(tzinfo=PARIS), None]),
    (pa.timestamp("us", "+05:30"), [MOMENT.replace(tzinfo=INDIA)]),
    *((pa.duration(unit), [dt.timedelta(-1, 5), None, dt.timedelta(1000)]) for unit in ("s", "ms", "us", "ns")),
    (pa.month_day_nano_interval(), [ad.MonthDayNano(1, -2, 3), None]),
    *((kind, [b"ab", None, b"", b"thirteen bytes"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), [b"ab", None]),
    *((kind, ["é", None, "", "thirteen bytes"]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind(pa.int8()), [[1, None], None, [], [2]])
      for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
    (pa.list_(pa.int8(), 2), [[1, None], None, [2, 3]]),
    (pa.list_(pa.list_(pa.string())), [[["a"], None, []], None, [[]]]),
    (POINT, [{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("a", None)], None, []]),
    (pa.list_(POINT), [[{"x": 1, "y": []}], None, [None]]),
    (pa.dense_union(UNION), [1, "a", None, 2]),
    (pa.sparse_union(UNION), [1, "a", None, 2]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b", "a"]),
    (pa.dictionary(pa.int32(), pa.float64()), [0.0, -0.0, 0.0]),
    (pa.run_end_encoded(pa.int32(), pa.string()), ["a", "a", None, None, "b"]),
]
IDS = [f"{number}-{kind}" for number, (kind, _) in enumerate(CASES)]


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_values_of_every_type_become_arrays_and_come_back(kind, values):
    a = ad.array(values, type=kind)
    a.validate(full=True)
    assert a.type == ad.schema(kind).type
    back = a.to_pylist()
    assert back == values and [type(value) for value in back] == [type(value) for value in values]
    assert list(map(repr, back)) == list(map(repr, values))
    assert list(a) == values and [a[index] for index in range(len(a))] == values
    assert pa.array(a).to_pylist() == values
    assert a[1:].to_pylist() == values[1:] and a[-1] == values[-1]


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_values_are_those_that_pyarrow_reads(kind, values):
    theirs = pa.array(ad.array([*values, *values], type=kind))
    for start, length in ((0, len(theirs)), (1, len(theirs) - 1), (1, 1), (len(theirs), 0)):
        part = theirs.slice(start, length)
        assert ad.array(part).to_pylist() == part.to_pylist()
        nested = pa.StructArray.from_arrays([part], ["x"])
        assert ad.array(nested).to_pylist() == nested.to_pylist()


@pytest.mark.parametrize("values, kind", [
    ([], "null"),
    ([None], "null"),
    ([True, None], "bool"),
    ([1, None, -2], "int64"),
    ([1, 1 << 63], "uint64"),
    ([1, 2.5], "float64"),
    (["a"], "utf8"),
    ([b"a", bytearray(b"b")], "binary"),
    ([MOMENT], "timestamp[us]"),
    ([None, MOMENT.replace(tzinfo=PARIS), MOMENT.replace(tzinfo=INDIA)], "timestamp[us, Europe/Paris]"),
    ([MOMENT.replace(tzinfo=dt.timezone.utc)], "timestamp[us, UTC]"),
    ([MOMENT.replace(tzinfo=INDIA)], "timestamp[us, +05:30]"),
    ([dt.date(2024, 1, 1)], "date32"),
    ([dt.time(1)], "time64[us]"),
    ([dt.timedelta(1)], "duration[us]"),
    ([D("1.5"), D("-100")], "decimal128(4, 1)"),
    ([D("1E-50")], "decimal256(50, 50)"),
    ([ad.MonthDayNano(1, 2, 3)], "interval[month_day_nano]"),
    ([[1], None, (2.5,)], "list<item: float64>"),
    ([[], None], "list<item: null>"),
    ([{"x": 1}, {"y": "a", "x": None}], "struct<x: int64, y: utf8>"),
    ([np.float32(1), None], "float32"),
    ([np.float64(1)], "float64"),
    ([np.uint16(1), np.uint16(2)], "uint16"),
    ([np.uint16(1), 2], "int64"),
    ([np.bool_(True), False], "bool"),
    ([np.str_("a"), np.bytes_(b"b").decode()], "utf8"),
    ([np.datetime64("2024-01-01")], "date32"),
    ([np.datetime64("2024-01-01T00", "ms"), np.datetime64("NaT")], "timestamp[ms]"),
    ([np.datetime64("2024-01-01T00:00:00.000000001"), MOMENT], "timestamp[ns]"),
    ([np.timedelta64(3, "s"), np.timedelta64(1, "h")], "duration[s]"),
    ([np.array([1, 2]), [3]], "list<item: int64>"),
])
def test_types_are_found_out(values, kind):
    a = ad.array(values)
    a.validate(full=True)
    assert str(a.type) == kind and len(a) == len(values)


@pytest.mark.parametrize("values, where", [
    ([1, None, "a"], r"^\[2\]: str after values of int$"),
    ([True, 1], r"^\[1\]: int after values of bool"),
    (["a", b"a"], r"^\[1\]: bytes after values of str"),
    ([MOMENT, MOMENT.replace(tzinfo=PARIS)], r"^\[1\]: datetime with a time zone after values of datetime without"),
    ([MOMENT, MOMENT.date()], r"^\[1\]: date after"),
    ([[1], [2, "a"]], r"^\[1\]\[1\]: str after values of int"),
    ([None, {"x": [1]}, {"x": ["a"]}], r'^\[2\]\["x"\]\[0\]: str after values of int'),
    ([1, object()], r"^\[1\]: a value of <class 'object'> has no type"),
    ([{1: 2}], r"^\[0\]: a key is of <class 'int'>"),
    ([1, 2j], r"^\[1\]: a value of <class 'complex'>"),
])
def test_mixed_types_are_refused_with_their_place(values, where):
    with pytest.raises(TypeError, match=where):
        ad.array(values)


@pytest.mark.parametrize("values, kind, error", [
    ([300], "int8", ad.DataError),
    ([-1], "uint64", ad.DataError),
    ([1 << 200], "int64", ad.DataError),
    ([True], "int8", TypeError),
    ([1.5], "int8", TypeError),
    ([1], "utf8", TypeError),
    (["a"], "binary", TypeError),
    ([1e300], "float32", ad.DataError),
    ([65520.0], "float16", ad.DataError),
    ([(1 << 53) + 1], "float64", ad.DataError),
    ([(1 << 127) - 1], "float64", ad.DataError),
    ([(1 << 24) + 1], "float32", ad.DataError),
    ([1 << 128], "float32", ad.DataError),
    ([-2049], "float16", ad.DataError),
    ([65519], "float16", ad.DataError),
    ([1 << 16], "float16", ad.DataError),
    (["\ud800"], "utf8", ad.DataError),
    ([b"abc"], pa.binary(2), ad.DataError),
    ([D("1.234")], pa.decimal128(5, 2), ad.DataError),
    ([D("1E999999999999")], pa.decimal128(5, 2), ad.DataError),
    ([D("1E-999999999")], pa.decimal128(5, 2), ad.DataError),
    ([D("12345")], pa.decimal128(5, 2), ad.DataError),
    ([D("nan")], pa.decimal128(5, 2), ValueError),
    ([MOMENT], "timestamp[s]", ad.DataError),
    ([MOMENT], pa.timestamp("us", "UTC"), TypeError),
    ([MOMENT.replace(tzinfo=PARIS)], "timestamp[us]", TypeError),
    ([MOMENT], "date32", TypeError),
    ([dt.timedelta(10**8)], "duration[ns]", ad.DataError),
    ([dt.time(0, 0, 0, 1)], "time32[ms]", ad.DataError),
    ([ad.MonthDayNano(1, 0, 1)], "interval[year_month]", ad.DataError),
    ([[1, 2]], pa.list_(pa.int8(), 3), ad.DataError),
    ([[None]], pa.list_(pa.field("item", pa.int8(), nullable=False)), ad.DataError),
    ([{"y": 1}], pa.struct([("x", pa.int8())]), ad.DataError),
    ([{}], pa.struct([pa.field("x", pa.int8(), nullable=False)]), ad.DataError),
    ([[(None, 1)]], pa.map_(pa.int8(), pa.int8()), ad.DataError),
    ([[1]], pa.map_(pa.int8(), pa.int8()), TypeError),
    ([1.5], pa.dense_union(UNION), TypeError),
    ([str(number) for number in range(200)], pa.dictionary(pa.int8(), pa.string()), ad.DataError),
    ([1], "no such type", ad.DataError),
    ([1], 5, TypeError),
])
def test_values_that_do_not_fit_are_refused(values, kind, error):
    with pytest.raises(error):
        ad.array(values, type=kind)


@pytest.mark.parametrize("name", ["dtype", "kind", "itemsize"])
def test_what_a_number_raises_comes_out(name):
    class Kind:
        kind, itemsize = "f", 8

    class Number(float):
        dtype = Kind()

    def fail(self):
        raise KeyboardInterrupt

    setattr(Number if name == "dtype" else Kind, name, property(fail))
    with pytest.raises(KeyboardInterrupt):
        ad.array([Number(1.5)])
    assert ad.array([type("Plain", (float,), {"dtype": None})(1.5)]).to_pylist() == [1.5]


def test_what_the_text_of_a_number_raises_comes_out():
    class Number(int):
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ad.array([Number(300)], type="int8")


@pytest.mark.parametrize("kind, values", [
    ("float16", [0, 2048, -2050, 65504]),
    ("float32", [0, 1 << 24, -(1 << 24) - 2, 1 << 126]),
    ("float64", [0, 1 << 53, -(1 << 53) - 2, 1 << 126, -(1 << 127)]),
])
def test_integers_become_floats_where_they_are_not_rounded(kind, values):
    assert ad.array(values, type=kind).to_pylist() == values


def test_a_type_can_be_that_of_an_array_and_keeps_its_metadata():
    like = ad.array(pa.array([1], pa.int16()))
    assert ad.array([5], type=like.type).type == "int16" == ad.array([5], type=like.schema).type
    uuid = ad.schema(pa.field("id", pa.binary(2), metadata={"ARROW:extension:name": "one.of.ours"}))
    a = ad.array([b"ab", None], type=uuid)
    assert a.schema.metadata[b"ARROW:extension:name"] == b"one.of.ours" and a.to_pylist() == [b"ab", None]
    assert ad.array([1000], type="timestamp[ns]").to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]


def test_what_has_a_type_is_not_converted():
    assert ad.array(np.arange(3), type="int64").to_pylist() == [0, 1, 2]
    with pytest.raises(TypeError, match="is of int64 and not of int32, and nothing is converted"):
        ad.array(np.arange(3), type="int32")


def test_any_iterable_is_read_and_text_is_none():
    assert ad.array(range(3)).to_pylist() == [0, 1, 2] == ad.array(number for number in range(3)).to_pylist()
    for other in ("text", {"x": 1}, 5, None):
        with pytest.raises(TypeError):
            ad.array(other)
    assert ad.array(b"ab").type == "uint8"


def test_rows_become_batches_and_batches_rows():
    rows = [{"x": 1, "y": "a"}, {"x": None, "y": "b"}]
    b = ad.record_batch(rows)
    assert b.to_pylist() == rows == list(b) == pa.record_batch(b).to_pylist()
    assert ad.record_batch({"x": [1, None], "y": ["a", "b"]}).to_pylist() == rows
    assert b["x"].to_pylist() == [1, None] and b[1:].to_pylist() == rows[1:]
    with pytest.raises(TypeError, match="rows are those of b.to_pylist"):
        b[0]
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(ad.DataError, match='two fields are called "x"'):
        ad.record_batch(twice).to_pylist()


def test_nothing_less_than_microseconds_is_dropped():
    for kind in ("timestamp[ns]", "duration[ns]", "time64[ns]"):
        with pytest.raises(ad.DataError, match="no whole number of microseconds"):
            ad.array([1], type=kind).to_pylist()
        ad.array([1000], type=kind).to_pylist()


@pytest.mark.parametrize("kind, count", [
    ("timestamp[s]", 1 << 62), ("date32", 1 << 30), ("date64", -(1 << 62)), ("duration[s]", 1 << 62),
    ("time64[us]", 86_400_000_000), ("time32[s]", -1), (pa.timestamp("s", "Europe/Paris"), 253402300799),
])
def test_times_that_python_cannot_hold_are_refused(kind, count):
    with pytest.raises(ad.DataError, match="beyond what Python's datetime holds|no time of a day"):
        ad.array([count], type=kind).to_pylist()


def test_a_time_zone_that_nobody_knows_is_refused():
    with pytest.raises(ad.DataError, match="has no time zone"):
        ad.array(pa.array([1], pa.timestamp("s", "Nowhere/City"))).to_pylist()


def test_numbers_name_elements_and_other_things_do_not():
    a = ad.array([1, 2, 3])
    assert (a[0], a[-1], a[np.int64(1)]) == (1, 3, 2) and 2 in a and 5 not in a
    for index in (3, -4):
        with pytest.raises(IndexError, match="out of range"):
            a[index]
    with pytest.raises(TypeError, match="an array has elements"):
        a["x"]

    class Hostile:
        def __index__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        a[Hostile()]
    with pytest.raises(ZeroDivisionError):
        ad.array([Hostile()], type="int64")
    with pytest.raises(TypeError, match=r"\[0\]: a value of"):
        ad.array([Hostile()])


def test_elements_on_a_device_are_read_where_copies_are_allowed(device):
    a = ad.array([1, None, 3]).to(device)
    if device == ad.device("cpu"):
        assert a.to_pylist() == [1, None, 3]
        return
    for read in (a.to_pylist, a.__iter__, lambda: a[0]):
        with pytest.raises(ad.NotSupportedError, match="is for host memory, and this lives on"):
            read()
    allowed = a.with_host_copies()
    assert allowed.to_pylist() == list(allowed) == [1, None, 3] and allowed[2] == 3
    assert ad.array([1, None, 3], device=device).to_host().to_pylist() == [1, None, 3]


def test_an_iterator_is_read_in_parts_and_keeps_the_memory():
    elements = iter(ad.array(range(10_000)))
    assert next(elements) == 0 and elements.__length_hint__() == 9_999
    assert sum(elements) == sum(range(10_000)) and list(elements) == []


def test_a_few_bytes_that_claim_many_elements_are_a_memory_error():
    nulls = ad.array(Numbers(format=b"n", length=1 << 60, null_count=1 << 60, n_buffers=0))
    with pytest.raises(MemoryError):
        nulls.to_pylist()
    assert next(iter(nulls)) is None and nulls[-1] is None


def test_broken_data_is_found_where_it_is_read():
    offsets = pa.py_buffer(b"".join(number.to_bytes(4, "little") for number in (0, 9, 1)))
    words = ad.array(pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"aa")]))
    with pytest.raises(ad.DataError):
        words.to_pylist()
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), ["a"], safe=False)
    with pytest.raises(ad.DataError, match="key 7 is not among 1 values"):
        ad.array(keys).to_pylist()


def test_what_lies_below_a_null_is_not_looked_at():
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), ["a"], safe=False)
    rows = pa.StructArray.from_arrays([keys], ["x"], mask=pa.array([False, True]))
    assert ad.array(rows).to_pylist() == [{"x": "a"}, None]


def test_values_that_many_elements_share_are_made_once_where_nobody_can_change_them():
    words = ad.array(["words"] * 3, type=pa.dictionary(pa.int8(), pa.string())).to_pylist()
    assert words[0] is words[1] is words[2]
    lists = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([[1]]))
    one, other = ad.array(lists).to_pylist()
    assert one == other == [1] and one is not other


def test_dictionaries_with_no_key_in_common_are_refused():
    # Each would be a row with a place for each key: the square of their number.
    apart = [{f"k{number}": number} for number in range(9_000)]
    with pytest.raises(ad.DataError, match="9000 values for 81000000 places"):
        ad.array(apart)
    with pytest.raises(ad.DataError, match="pass `type`"):
        ad.array([{f"a{number % 100}": {f"b{number // 100}": 1}} for number in range(9_000)])
    few = ad.array([{f"k{number % 50}": number} for number in range(1_000)])
    assert few.num_children == 50 and few[999]["k49"] == 999


def test_lists_without_an_end_are_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    itself = []
    itself += [[], itself, itself]
    tree = {}
    tree["x"] = [tree, tree]
    for values in (deep, itself, [tree]):
        for kind in (None, pa.list_(pa.list_(pa.null()))):
            with pytest.raises(ad.DataError, match="are in each other"):
                ad.array(values, type=kind)


def test_a_list_may_change_while_it_is_read():
    values = [[1, 2], [3]]

    class Changes(dt.tzinfo):
        def utcoffset(self, _):
            values.clear()
            inner.clear()
            return dt.timedelta(0)

        key = "UTC"

    inner = [MOMENT.replace(tzinfo=Changes()) for _ in range(3)]
    values.append(inner)
    assert len(ad.array(values[2:])) == 1
    values = [MOMENT.replace(tzinfo=Changes()) for _ in range(3)]
    assert len(ad.array(values)) == 3 and values == []


def test_an_iterable_that_raises_raises():
    def broken():
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ad.array(broken())


def test_an_endless_iterable_ends_with_ctrl_c():
    code = (
        "import arrow_device as ad, itertools, signal\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, stop)\n"
        "try: ad.array(itertools.repeat(1))\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (outcome.stdout, outcome.stderr) == ("stopped\n", "")


def test_nothing_is_left_behind():
    before = live()
    for kind, values in CASES:
        a = ad.array(values, type=kind)
        a.to_pylist(), next(iter(a), None)
    del a
    with pytest.raises(TypeError):
        ad.array([[1], "a"])
    assert live() == before
    assert list(itertools.islice(ad.array(range(5)), 2)) == [0, 1]
