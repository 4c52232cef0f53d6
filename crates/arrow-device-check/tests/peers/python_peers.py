"""Peers in Python for the tests: what the wheels make, and the same with one thing wrong."""

import ctypes

import pyarrow as pa


def numbers():
    return pa.array([1, None, 3], pa.int32())


def batch():
    columns = {"n": [1, 2, 3], "t": ["tea", None, "milk"]}
    return pa.record_batch(columns)


def slice_with_nulls():
    return pa.array(["tea", None, "coffee", "milk"]).slice(1, 2)


def reader():
    return pa.RecordBatchReader.from_batches(batch().schema, [batch(), batch()])


def chunked():
    return pa.chunked_array([[1, 2], [3]])


def tensor():
    return pa.array([1, 2, 3], pa.int64())


# ---- consumers and relays


def take_array(thing):
    array = pa.array(thing)
    array.validate(full=True)


def take_as_int32(thing):
    """Asks for numbers of 32 bits, and is given 64."""
    pa.array(thing, type=pa.int32())


def take_and_cast(thing):
    """The same, and does itself what the producer did not do."""
    pa.array(AsItIs(thing)).cast(pa.int32())


class AsItIs:
    def __init__(self, thing):
        self.thing = thing

    def __getattr__(self, name):
        method = getattr(self.thing, name)
        if name != "__arrow_c_device_array__":
            return method
        schema = pa.field("", pa.int32()).__arrow_c_schema__()
        return lambda requested_schema=None, **kwargs: method(requested_schema=schema, **kwargs)


def assumes_its_wish(thing):
    """Takes what it asked for as given."""
    if not hasattr(thing, "__arrow_c_device_array__"):
        return take_array(thing)
    wish = pa.field("", pa.int32())
    capsules = thing.__arrow_c_device_array__(requested_schema=wish.__arrow_c_schema__())
    array = pa.Array._import_from_c_device_capsule(*capsules)
    assert array.type == wish.type


def relay_array(thing):
    return pa.array(thing)


def keep_everything(thing, kept=[]):
    kept.append(thing.__arrow_c_device_array__())


NAME = ctypes.create_string_buffer(b"arrow_device_array")


def take_any_name(thing):
    """Looks at no name."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    if name(getattr(thing, "array", None)) == b"something_else":
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_void_p]
        rename(thing.array, ctypes.addressof(NAME))
    take_array(thing)


def only_host(thing):
    if not hasattr(thing, "__arrow_c_array__"):
        raise TypeError("no __arrow_c_array__")
    pa.Array._import_from_c_capsule(*thing.__arrow_c_array__())


# ---- consumers of streams

DEVICE, HOST = "__arrow_c_device_stream__", "__arrow_c_stream__"
# The name of the capsule, where the callbacks begin, and the size of an array.
STREAMS = {DEVICE: (b"arrow_device_array_stream", 8, 128), HOST: (b"arrow_array_stream", 0, 80)}


def read_stream(stream, first, size):
    """Reads a stream to its end, and releases all."""

    def callback(index, *types):
        address = ctypes.c_void_p.from_address(stream + first + 8 * index).value
        return ctypes.CFUNCTYPE(*types)(address) if address else None

    get_schema, get_next = (callback(index, ctypes.c_int, *[ctypes.c_void_p] * 2) for index in (0, 1))
    try:
        schema = ctypes.create_string_buffer(72)
        code = get_schema(stream, schema)
        while code == 0:
            release(schema, 56)
            array = ctypes.create_string_buffer(size)
            code = get_next(stream, array)
            if code == 0 and not release(array, 64):
                return
            device_type = ctypes.c_int32.from_address(stream).value
            if code == 0 and first and ctypes.c_int32.from_buffer(array, 88).value != device_type:
                raise ValueError("an array on another type of device")
        raise OSError(code, "the stream failed")
    finally:
        callback(3, None, ctypes.c_void_p)(stream)


def release(struct, at):
    """Releases a struct, unless it is released."""
    address = ctypes.c_void_p.from_buffer(struct, at).value
    if address:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(struct))
    return address is not None


def take_stream(thing, methods=(DEVICE, HOST), looks_at_name=True):
    method = next(method for method in methods if hasattr(thing, method))
    name, first, size = STREAMS[method]
    given = getattr(thing, method)()
    if not looks_at_name:
        name_of = ctypes.pythonapi.PyCapsule_GetName
        name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
        name = name_of(given)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    read_stream(get(given, name), first, size)


def take_stream_of_the_host(thing):
    """Asks for the method of the CPU first."""
    take_stream(thing, (HOST, DEVICE))


def take_stream_of_any_name(thing):
    take_stream(thing, looks_at_name=False)


# ---- objects with one thing wrong


class Wrapped:
    def __init__(self):
        self.array = numbers()


class WithoutKeywords(Wrapped):
    def __arrow_c_device_array__(self, requested_schema=None):
        return self.array.__arrow_c_device_array__()


class WithAnyKeyword(Wrapped):
    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return self.array.__arrow_c_device_array__()


class WithoutRequest(Wrapped):
    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        if requested_schema is not None:
            raise NotImplementedError("requested_schema")
        return self.array.__arrow_c_device_array__(None, **kwargs)


class Swapped(Wrapped):
    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return tuple(reversed(self.array.__arrow_c_device_array__(None, **kwargs)))


class GivenTwice(Wrapped):
    """Gives the same capsules each time."""

    given = None

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        if any(value is not None for value in kwargs.values()):
            raise NotImplementedError
        GivenTwice.given = GivenTwice.given or self.array.__arrow_c_device_array__()
        return GivenTwice.given


class WithoutDestructor(Wrapped):
    """Its schema is never released, unless somebody consumes it."""

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        schema, array = self.array.__arrow_c_device_array__(None, **kwargs)
        ctypes.pythonapi.PyCapsule_SetDestructor(ctypes.py_object(schema), None)
        return schema, array


class OldTensor:
    def __dlpack__(self, stream=None):
        return tensor().__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class Raises:
    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        raise RuntimeError("not today")


class Nothing:
    pass


def take_tensor(thing):
    pa.FixedShapeTensorArray.from_dlpack(thing)


# ---- nanoarrow


def nanoarrow_array():
    import nanoarrow
    from nanoarrow.device import c_device_array

    return c_device_array(nanoarrow.c_array([1, 2, 3], nanoarrow.int32()))


def nanoarrow_relay(thing):
    from nanoarrow.device import c_device_array

    return c_device_array(thing)


def nanoarrow_take(thing):
    from nanoarrow.device import c_device_array

    c_device_array(thing).view()


def nanoarrow_resolves_metal():
    from nanoarrow import device

    device.resolve(8, 0)


# ---- right ones that look wrong


def take_batch(thing):
    """Takes record batches alone."""
    pa.record_batch(thing).validate(full=True)


def relay_batch(thing):
    return pa.record_batch(thing)


def raises_far_below():
    """Its error is in the report with the line that raised it."""
    return deep(3)


def deep(levels):
    if levels == 0:
        raise RuntimeError("the pump is dry")
    return deep(levels - 1)


def read_only_tensor():
    """Memory that the older form cannot tell of, and which numpy refuses to show in it."""
    import numpy

    array = numpy.arange(6)
    array.flags.writeable = False
    return array


def take_with_numpy(thing):
    """Lets go of a capsule that it refuses while the exception is on its way."""
    import numpy

    numpy.from_dlpack(thing)


class OneTooMany:
    """Shows one element more than numpy has allocated."""

    elements = 501

    def __init__(self):
        import numpy

        self.array = numpy.arange(500)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **kwargs):
        from numpy.lib.stride_tricks import as_strided

        return as_strided(self.array, (self.elements,), (8,)).__dlpack__(**kwargs)


class AsManyAsThereAre(OneTooMany):
    elements = 500


class ElsewhereAndHere(Wrapped):
    """Says that its data is on a GPU, and gives the same as data of the CPU."""

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        if any(value is not None for value in kwargs.values()):
            raise NotImplementedError
        schema, array = self.array.__arrow_c_device_array__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(get(array, b"arrow_device_array") + 88).value = 2
        return schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__()


class Elsewhere(ElsewhereAndHere):
    """The same, which tells the CPU that it has nothing for it."""

    def __arrow_c_array__(self, requested_schema=None):
        raise ValueError("the data is on a GPU")


def is_emptied(thing):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if not hasattr(thing, "array"):
        return False
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = get(thing.array, name(thing.array))
    return ctypes.c_void_p.from_address(address + 64).value is None


def take_nothing_too(thing):
    """Takes capsules that hold nothing any more for arrays without elements."""
    if not is_emptied(thing):
        take_array(thing)
