"""Comparisons and copies that go through many elements at a time give what pyarrow and numpy give."""

import random

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad

LENGTH = 10_000


def values(kind, count, choose):
    made = {
        "int64": lambda: choose.randrange(-5, 5),
        "uint8": lambda: choose.randrange(4),
        "float32": lambda: float(choose.randrange(4)),
        "bool": lambda: choose.random() < 0.5,
        "text": lambda: choose.choice(["", "a", "bc", "äö"]),
        "binary": lambda: choose.choice([b"", b"a"]),
        "large_string": lambda: choose.choice(["", "abc"]),
        "decimal": lambda: choose.randrange(9),
        "fixed": lambda: choose.choice([b"abc", b"abd"]),
    }[kind]
    return [made() for _ in range(count)]


TYPES = {
    "int64": pa.int64(), "uint8": pa.uint8(), "float32": pa.float32(), "bool": pa.bool_(), "text": pa.string(),
    "binary": pa.binary(), "large_string": pa.large_string(), "decimal": pa.decimal128(9, 0), "fixed": pa.binary(3),
}


def other_than(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, bytes):
        return b"x" * (len(value) or 1)
    return value + ("x" if isinstance(value, str) else 1)


@pytest.mark.parametrize("nulls", [0, 0.1, 0.999, 1])
@pytest.mark.parametrize("kind", TYPES)
def test_arrays_are_equal_where_pyarrow_finds_them_equal(kind, nulls):
    choose = random.Random(kind + str(nulls))
    numbers = [None if choose.random() < nulls else value for value in values(kind, LENGTH, choose)]
    make = lambda numbers: pa.array(numbers, TYPES[kind])
    whole = make(numbers)
    for _ in range(12):
        start = choose.randrange(200)
        end = choose.randrange(start, LENGTH)
        before = choose.randrange(70)
        # The same elements at another offset, and other values below the nulls.
        shifted = pa.concat_arrays([make([value for value in values(kind, before, choose)]), make(numbers[start:end])]).slice(before)
        one, two = ad.array(whole.slice(start, end - start)), ad.array(shifted)
        assert one == two
        for at in {0, end - start - 1, choose.randrange(max(1, end - start))}:
            if not start <= start + at < end:
                continue
            changed = numbers[start:end]
            changed[at] = None if choose.random() < 0.3 else other_than(changed[at] if changed[at] is not None else values(kind, 1, choose)[0])
            other = make(changed)
            assert (one == ad.array(other)) == whole.slice(start, end - start).equals(other)
            assert (ad.array(other) == one) == whole.slice(start, end - start).equals(other)


def test_what_lies_below_a_null_makes_no_difference():
    for data in ((np.arange(5000), np.arange(5000) + (np.arange(5000) % 7 == 0)), ):
        bits = np.packbits(np.arange(5000) % 7 != 0, bitorder="little").tobytes()
        one, two = (ad.array(pa.Array.from_buffers(pa.int64(), 5000, [pa.py_buffer(bits), pa.py_buffer(each)])) for each in data)
        assert one == two
        assert ad.array(pa.array(data[0])) != ad.array(pa.array(data[1]))


def test_batches_and_structs_are_compared_by_their_columns():
    rows = [{"a": n % 5, "b": None if n % 3 else str(n)} for n in range(9000)]
    table = pa.RecordBatch.from_pylist(rows)
    changed = pa.RecordBatch.from_pylist([*rows[:8999], {"a": 9, "b": None}])
    same = pa.RecordBatch.from_pylist(rows)
    assert ad.record_batch(table) == ad.record_batch(same)
    assert ad.record_batch(table) != ad.record_batch(changed)
    assert ad.record_batch(table)[:8999] == ad.record_batch(changed)[:8999]
    with_nulls = [None if n % 11 == 0 else row for n, row in enumerate(rows)]
    one, two = pa.array(with_nulls), pa.array(with_nulls)
    assert ad.array(one) == ad.array(two) and ad.array(one)[1:] != ad.array(two)[:-1]
    nested = pa.array([[row] for row in with_nulls])
    assert ad.array(nested) == ad.array(pa.array([[row] for row in with_nulls]))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("cut", [
    lambda x: x[::2], lambda x: x[::-1], lambda x: x[3::-3], lambda x: x.reshape(20, 30).T, lambda x: x.reshape(20, 30)[::-1, ::2],
    lambda x: x.reshape(4, 5, 30).transpose(2, 0, 1), lambda x: x.reshape(4, 5, 30).transpose(1, 0, 2)[:, ::-1],
    lambda x: x.reshape(2, 3, 4, 25)[:, ::2, ::-1, 1::3], lambda x: np.broadcast_to(x[:7], (3, 7)), lambda x: np.broadcast_to(x[:7, None], (7, 5)),
    lambda x: x[:1][::-1], lambda x: x[5:5][::-1], lambda x: x.reshape(600, 1)[::-2],
], ids=range(13))
def test_elements_that_do_not_lie_together_are_copied_as_numpy_copies_them(dtype, cut):
    view = cut(np.arange(600).astype(dtype))
    for copied in (ad.array(view), ad.from_dlpack(view, copy=True), ad.from_dlpack(ad.from_dlpack(view), copy=True)):
        if dtype == "complex128" and isinstance(copied, ad.Array):
            continue
        np.testing.assert_array_equal(np.from_dlpack(copied), view)


@pytest.mark.parametrize("kind", ["int8", "int16", "float32", "float64", "int64", "decimal32"])
def test_nulls_are_filled_as_numpy_fills_them(kind):
    choose = np.random.default_rng(1)
    of = pa.decimal32(5, 0) if kind == "decimal32" else getattr(pa, kind)()
    for count in (1, 63, 64, 65, 1000):
        for offset in (0, 1, 7, 64, 65):
            numbers = choose.integers(0, 100, count + offset).astype(kind if kind != "decimal32" else "int32")
            is_null = choose.random(count + offset) < 0.3
            plain = pa.array(numbers, mask=is_null) if kind != "decimal32" else pa.array([None if gap else int(n) for n, gap in zip(numbers, is_null)], of)
            a = ad.array(plain.slice(offset))
            fill = float("nan") if kind.startswith("float") else 7
            made = np.from_dlpack(a.to_tensor(nulls="nan" if fill != 7 else 7, as_integers=kind == "decimal32"))
            np.testing.assert_array_equal(made, np.where(is_null[offset:], fill, numbers[offset:]))
    whole = ad.array(pa.array([1, 2], of))
    assert whole.to_tensor(nulls=7, copy=False, as_integers=True).size == 2, "without a null nothing is copied"
