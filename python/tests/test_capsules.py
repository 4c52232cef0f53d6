"""The Arrow PyCapsule protocol for arrays and schemas: names, consumption, destruction, and who may ask for what."""

import ctypes
import gc
import threading

import pyarrow as pa
import pytest

import arrow_device as ad
from support import (
    ArrowArray,
    ArrowDeviceArray,
    ArrowDeviceArrayStream,
    HostNumbers,
    Numbers,
    OnDevice,
    capsule,
    live,
    name_of,
    rename,
    struct_of,
    until,
)

NUMBERS = pa.array([1, None, 3], pa.int32())


# Requirement: PYC-1
def test_capsules_have_the_names_of_the_specification():
    a, s = ad.array(NUMBERS), ad.stream([NUMBERS])
    assert [name_of(part) for part in a.__arrow_c_array__()] == ["arrow_schema", "arrow_array"]
    assert [name_of(part) for part in a.__arrow_c_device_array__()] == [
        "arrow_schema", "arrow_device_array",
    ]
    assert name_of(a.__arrow_c_schema__()) == name_of(a.schema.__arrow_c_schema__()) == "arrow_schema"
    assert name_of(a.type.__arrow_c_schema__()) == name_of(s.__arrow_c_schema__()) == "arrow_schema"
    assert name_of(s.__arrow_c_stream__()) == "arrow_array_stream"
    assert name_of(ad.stream([NUMBERS]).__arrow_c_device_stream__()) == "arrow_device_array_stream"


class Says:
    """Says whatever a test wants by each method."""

    def __init__(self, **methods):
        for name, value in methods.items():
            setattr(self, f"__arrow_c_{name}__", lambda *args, value=value, **kwargs: value)


@pytest.mark.parametrize("method", ["array", "device_array"])
@pytest.mark.parametrize("wrong", [0, 1])
# Requirement: PYC-1
def test_a_capsule_of_another_name_is_refused_and_left_alone(method, wrong):
    numbers = Numbers()
    structures = [numbers.schema, numbers.device_array]
    names = [b"arrow_schema", f"arrow_{method}".encode()]
    names[wrong] = b"arrow_other"
    parts = tuple(capsule(each, name) for each, name in zip(structures, names))
    with pytest.raises(ad.DataError, match="expected a capsule named 'arrow_.*', got 'arrow_other'"):
        ad.array(Says(**{method: parts}))
    assert numbers.released_array == 0


@pytest.mark.parametrize("method", ["stream", "device_stream"])
# Requirement: PYC-1
def test_a_stream_capsule_of_another_name_is_refused(method):
    other = {"stream": "device_stream", "device_stream": "stream"}[method]
    given = getattr(ad.stream([NUMBERS]), f"__arrow_c_{other}__")()
    with pytest.raises(ad.DataError, match="expected a capsule named"):
        ad.stream(Says(**{method: given}))


def test_what_is_no_capsule_is_a_type_error():
    numbers = Numbers()
    schema, array = numbers.__arrow_c_device_array__()
    for said in [None, 7, (schema,), (schema, array, array), [schema, array], (schema, 7), (7, array)]:
        with pytest.raises(TypeError, match="expected"):
            ad.array(Says(device_array=said))
    with pytest.raises(TypeError, match="expected a capsule named 'arrow_array_stream'"):
        ad.stream(Says(stream=7))


# Requirement: PYC-2
def test_a_capsule_is_consumed_once():
    parts = ad.array(NUMBERS).__arrow_c_device_array__()
    assert ad.array(Says(device_array=parts)) == ad.array(NUMBERS)
    with pytest.raises(ad.DataError, match="already released"):
        ad.array(Says(device_array=parts))
    host = ad.array(NUMBERS).__arrow_c_array__()
    pa.array(Says(array=host))
    with pytest.raises(ad.DataError, match="already released"):
        ad.array(Says(array=host))


# Requirement: PYC-2
def test_a_stream_capsule_is_consumed_once():
    for kind in ("stream", "device_stream"):
        given = getattr(ad.stream([NUMBERS]), f"__arrow_c_{kind}__")()
        assert len(ad.stream(Says(**{kind: given})).read_all()) == 1
        with pytest.raises(ad.DataError, match="the stream is released"):
            ad.stream(Says(**{kind: given}))


# Requirement: PYC-2
def test_a_capsule_that_nobody_consumes_releases_what_is_in_it():
    before = live()
    numbers = Numbers()
    a = ad.array(numbers)
    parts = [a.__arrow_c_device_array__(), a.__arrow_c_schema__(), ad.stream([a]).__arrow_c_stream__()]
    del a
    gc.collect()
    assert numbers.released_array == 0
    parts.clear()
    until(lambda: numbers.released_array == 1)
    assert live() == before


# Requirement: PYC-2
def test_a_capsule_releases_on_whatever_thread_destroys_it():
    numbers = Numbers()
    parts = [ad.array(numbers).__arrow_c_device_array__()]
    thread = threading.Thread(target=parts.clear)
    thread.start()
    thread.join()
    until(lambda: numbers.released_array == 1)


# Requirement: PYC-2
def test_a_consumed_capsule_does_nothing_when_it_is_destroyed():
    numbers = Numbers()
    parts = ad.array(numbers).__arrow_c_device_array__()
    taken = ad.array(Says(device_array=parts))
    del parts
    gc.collect()
    assert numbers.released_array == 0 and len(taken) == 3
    del taken
    until(lambda: numbers.released_array == 1)


def test_a_capsule_that_was_renamed_is_left_alone():
    parts = ad.array(NUMBERS).__arrow_c_device_array__()
    rename(parts[1], b"somebody_elses")
    with pytest.raises(ad.DataError):
        ad.array(Says(device_array=parts))
    # Its struct is whoever's who renamed it: it is not freed, which would be seen by address
    # sanitizers only.
    rename(parts[1], b"arrow_device_array")


def test_an_exception_on_its_way_survives_the_destruction_of_capsules():
    def fail():
        parts = ad.array(NUMBERS).__arrow_c_device_array__()
        raise KeyError(len(parts))

    with pytest.raises(KeyError, match="2"):
        fail()


# Requirement: PYC-3
def test_unknown_arguments_have_to_be_none():
    a = ad.array(NUMBERS)
    a.__arrow_c_device_array__(None, later=None, another=None)
    ad.stream([a]).__arrow_c_device_stream__(None, later=None)
    with pytest.raises(NotImplementedError, match="__arrow_c_device_array__ does not know the argument later=7"):
        a.__arrow_c_device_array__(None, first=None, later=7)
    s = ad.stream([a])
    with pytest.raises(NotImplementedError, match="__arrow_c_device_stream__ does not know the argument later=7"):
        s.__arrow_c_device_stream__(later=7)
    # It was not handed over.
    assert len(s.read_all()) == 1


def test_a_null_column_has_one_buffer_at_most():
    for count, has_table, problem in (
        (0, False, None), (1, True, None), (1, False, "the table of 1 buffers is null"),
        (2, True, "null has 0 buffers or 1, not 2"), (-1, True, "null has 0 buffers or 1, not -1"),
    ):
        schema, array = pa.nulls(3).__arrow_c_array__()
        structure, table = struct_of(array, ArrowArray), (ctypes.c_void_p * 2)(16, 16)
        structure.n_buffers = count
        structure.buffers = table if has_table else None
        if problem:
            with pytest.raises(ad.DataError, match=problem):
                ad.array(Says(array=(schema, array)))
            continue
        taken = ad.array(Says(array=(schema, array)))
        assert taken.to_pylist() == [None] * 3
        out = taken.__arrow_c_array__()
        assert struct_of(out[1], ArrowArray).n_buffers == 0


# Requirement: PYC-4
def test_methods_for_host_memory_give_that_or_raise(device):
    there = ad.array(NUMBERS).to(device)
    if device.type == "cpu":
        assert pa.array(there).equals(NUMBERS)
        return
    with pytest.raises(NotImplementedError, match="is for host memory, and this lives on .*to_host"):
        there.__arrow_c_array__()
    with pytest.raises(NotImplementedError, match="is for host memory, and these arrays live on"):
        ad.stream([there]).__arrow_c_stream__()


# Requirement: PYC-4
def test_methods_for_host_memory_copy_when_they_were_told_to(device):
    there = ad.array(NUMBERS).to(device).with_host_copies()
    schema, array = there.__arrow_c_array__()
    assert pa.array(Says(array=(schema, array))).equals(NUMBERS)
    stream = ad.stream([there, there]).with_host_copies()
    assert pa.chunked_array(Says(stream=stream.__arrow_c_stream__())).to_pylist() == [1, None, 3] * 2
    assert there.slice(1).__arrow_c_array__() is not None


# Requirement: PYC-4
def test_methods_for_devices_never_copy(device):
    there = ad.array(NUMBERS).to(device)
    allocated = device.held["allocated"]
    parts = there.__arrow_c_device_array__()
    structure = struct_of(parts[1], ArrowDeviceArray)
    assert ad.device((structure.device_type, structure.device_id)) == device
    stream = ad.stream([there]).__arrow_c_device_stream__()
    assert struct_of(stream, ArrowDeviceArrayStream).device_type == device.type_id
    assert device.held["allocated"] == allocated


# Requirement: PYC-4
def test_what_was_told_to_copy_is_host_memory_by_the_methods_for_devices_too(device):
    batch = ad.record_batch({"x": NUMBERS}).to(device).with_host_copies()
    there = ad.array(NUMBERS).to(device).with_host_copies()
    structure = struct_of(there.__arrow_c_device_array__()[1], ArrowDeviceArray)
    assert (structure.device_type, structure.sync_event) == (1, None)
    # pyarrow prefers these methods.
    assert pa.array(there).equals(NUMBERS)
    assert pa.array(there[1:]).to_pylist() == [None, 3]
    assert pa.record_batch(batch).equals(pa.record_batch({"x": NUMBERS}))
    assert pa.record_batch(batch[1:]).to_pydict() == {"x": [None, 3]}
    assert pa.table(batch).to_pydict() == {"x": [1, None, 3]}
    stream = ad.stream([there, there]).with_host_copies().__arrow_c_device_stream__()
    assert struct_of(stream, ArrowDeviceArrayStream).device_type == 1
    assert [array.to_pylist() for array in ad.stream(Says(device_stream=stream))] == [[1, None, 3]] * 2
    # The data stays where it is for this package.
    assert ad.array(there).device == there.device == device


def test_what_the_specification_reserves_is_zero():
    parts = ad.array(NUMBERS).__arrow_c_device_array__()
    structure = struct_of(parts[1], ArrowDeviceArray)
    assert list(structure.reserved) == [0, 0, 0]
    assert (structure.device_type, structure.device_id, structure.sync_event) == (1, -1, None)


# Requirement: PYC-6
def test_the_method_for_devices_is_preferred():
    class Both(Numbers):
        def __arrow_c_array__(self, requested_schema=None):
            raise AssertionError("not this one")

    assert pa.array(ad.array(Both())).to_pylist() == [1, 2, 3]

    class BothStreams:
        def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
            return ad.stream([NUMBERS]).__arrow_c_device_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("not this one")

    assert len(ad.stream(BothStreams()).read_all()) == 1


# Requirement: PYC-6
def test_an_object_with_the_method_for_host_memory_only_is_in_host_memory():
    a = ad.array(HostNumbers())
    assert (a.device, pa.array(a).to_pylist()) == (ad.device("cpu"), [1, 2, 3])
    s = ad.stream(pa.table({"x": [1]}))
    assert s.device_type == "cpu"


# Requirement: PYC-6
def test_an_object_with_the_method_for_devices_only_is_taken():
    assert pa.array(ad.array(OnDevice(ad.array(NUMBERS)))).equals(NUMBERS)


@pytest.mark.parametrize("fault", [
    {"length": -1}, {"offset": -1}, {"null_count": 7}, {"n_buffers": 1}, {"n_buffers": 3},
    {"n_children": 1}, {"n_children": -1}, {"sync_event": 64}, {"length": 2**63 - 1},
    {"buffers": ctypes.POINTER(ctypes.c_void_p)()}, {"dictionary": 64}, {"format": b"?"},
    {"format": b"u"}, {"format": None},
])
# Requirement: PYC-2
def test_a_malformed_struct_is_an_error_and_released_once(fault):
    numbers = Numbers(**fault)
    with pytest.raises(ValueError):
        ad.array(numbers)
    refused_with_its_schema = "format" in fault and fault["format"] != b"u"
    # A capsule that was not consumed is still its producer's, who releases it.
    assert numbers.released_array == (0 if refused_with_its_schema else 1)
    assert numbers.released_schema == 1


def test_garbage_in_what_is_reserved_and_in_the_number_of_the_host_is_not_looked_at():
    numbers = Numbers(device_id=7)
    numbers.device_array.reserved = (ctypes.c_int64 * 3)(-1, -1, -1)
    assert ad.array(numbers).device == ad.device("cpu")


def test_an_array_on_a_device_that_nobody_knows_is_carried():
    numbers = Numbers(device_type=4711, device_id=1 << 40)
    a = ad.array(numbers)
    assert (a.device.type, a.device.type_id, a.device.id) == ("device_type(4711)", 4711, 1 << 40)
    assert repr(a) == f"<arrow_device.Array int32, 3 elements, 0 nulls, on device_type(4711):{1 << 40}, not waited for>"
    structure = struct_of(a.__arrow_c_device_array__()[1], ArrowDeviceArray)
    assert (structure.device_type, structure.device_id) == (4711, 1 << 40)
    assert structure.array.buffers[1] == ctypes.addressof(numbers.values)
    with pytest.raises(ad.DeviceError, match="this build has no backend for it") as caught:
        a.to_host()
    assert caught.value.device == f"device_type(4711):{1 << 40}"


def test_nothing_is_copied_on_the_way_through():
    numbers = Numbers()
    for parts in [ad.array(numbers).__arrow_c_device_array__()]:
        assert struct_of(parts[1], ArrowDeviceArray).array.buffers[1] == ctypes.addressof(numbers.values)
    host = HostNumbers()
    parts = ad.array(host).__arrow_c_array__()
    assert struct_of(parts[1], ArrowArray).buffers[1] == ctypes.addressof(host.values)


@pytest.mark.parametrize("have, wanted", [
    (pa.int32(), pa.int32()),
    (pa.int32(), pa.int64()),
    (pa.string(), pa.large_string()),
    (pa.string(), pa.string_view()),
    (pa.binary(), pa.large_binary()),
    (pa.list_(pa.int32()), pa.large_list(pa.int32())),
    (pa.dictionary(pa.int32(), pa.string()), pa.string()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.int8(), pa.uint64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal256(9, 4)),
    (pa.timestamp("s", "UTC"), pa.timestamp("us", "Europe/Berlin")),
    (pa.struct({"x": pa.int32()}), pa.struct({"x": pa.int64()})),
])
# Requirement: PYC-5
def test_data_is_handed_over_unchanged_where_the_request_allows_it(have, wanted):
    a = ad.array(pa.array([], have))
    for method in (a.__arrow_c_array__, a.__arrow_c_device_array__):
        schema, _ = method(ad.schema(wanted).__arrow_c_schema__())
        assert pa.field(Says(schema=schema)).type == have
    for method in ("__arrow_c_stream__", "__arrow_c_device_stream__"):
        s = ad.stream([a])
        again = getattr(s, method)(ad.schema(wanted).__arrow_c_schema__())
        assert name_of(again) == method.strip("_").replace("arrow_c_", "arrow_").replace("stream", "array_stream")


@pytest.mark.parametrize("have, wanted", [
    (pa.struct({"x": pa.int32()}), pa.struct({"x": pa.int32(), "y": pa.int32()})),
    (pa.struct({"x": pa.int32(), "y": pa.int32()}), pa.struct({"x": pa.int32()})),
    (pa.struct({"x": pa.struct({"a": pa.int8()})}), pa.struct({"x": pa.struct({})})),
    (pa.int32(), pa.string()),
    (pa.list_(pa.int32()), pa.list_(pa.string())),
    (pa.struct({"x": pa.int32()}), pa.int32()),
    (pa.struct({"x": pa.int32()}), pa.struct({"y": pa.int32()})),
    (pa.float64(), pa.int32()),
    (pa.int32(), pa.float64()),
    (pa.decimal128(5, 2), pa.int64()),
    (pa.date32(), pa.timestamp("s")),
    (pa.timestamp("s"), pa.timestamp("s", "UTC")),
    (pa.duration("s"), pa.time32("s")),
    (pa.string(), pa.binary()),
])
# Requirement: PYC-5
def test_a_request_that_cannot_be_met_is_refused(have, wanted):
    a = ad.array(pa.array([], have))
    for method in (a.__arrow_c_array__, a.__arrow_c_device_array__):
        with pytest.raises(ValueError, match="which cannot be handed over as"):
            method(ad.schema(wanted).__arrow_c_schema__())
    s = ad.stream([a])
    for method in (s.__arrow_c_stream__, s.__arrow_c_device_stream__):
        with pytest.raises(ValueError, match="which cannot be handed over as"):
            method(ad.schema(wanted).__arrow_c_schema__())
    assert len(s.read_all()) == 1, "a refused request leaves the stream as it was"
    with pytest.raises(TypeError):
        a.__arrow_c_array__("int32")


def test_pyarrow_gets_no_other_type_than_it_asked_for_without_being_told():
    table, asked = pa.table({"x": [1.5]}), pa.schema({"x": pa.int32()})
    with pytest.raises(ad.ExchangeError, match="take it as it is and convert it afterwards"):
        pa.RecordBatchReader.from_stream(ad.stream(table), schema=asked)
    with pytest.raises(ad.ExchangeError):
        pa.record_batch(ad.record_batch(table), schema=asked)
    with pytest.raises(ad.ExchangeError):
        pa.array(ad.array(pa.array([1.5])), type=pa.int32())
    # What says something about the same values is the consumer's to convert, who is told the type.
    assert pa.record_batch(ad.record_batch(pa.table({"x": [1]})), schema=asked).schema == asked
