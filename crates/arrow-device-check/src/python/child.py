"""Runs one scenario with a peer in Python. Started by the checker, which says in the environment what to do."""

import ctypes
import gc
import importlib
import os
import sys
import traceback

library = ctypes.CDLL(os.environ["ARROW_DEVICE_CHECK_LIBRARY"])
peer, kind, side, _ = os.environ["ARROW_DEVICE_CHECK_TASK"].split("\n", 3)

# Sizes and offsets of the structs: the release callback or deleter, and what a move copies.
SCHEMA, ARRAY, DEVICE_ARRAY, STREAM, DEVICE_STREAM = "SCHEMA ARRAY DEVICE_ARRAY STREAM DEVICE_STREAM".split()
SIZES = {SCHEMA: 72, ARRAY: 80, DEVICE_ARRAY: 128, STREAM: 40, DEVICE_STREAM: 48}
RELEASES = {SCHEMA: 56, ARRAY: 64, DEVICE_ARRAY: 64, STREAM: 24, DEVICE_STREAM: 32}
NAMES = {
    SCHEMA: b"arrow_schema",
    ARRAY: b"arrow_array",
    DEVICE_ARRAY: b"arrow_device_array",
    STREAM: b"arrow_array_stream",
    DEVICE_STREAM: b"arrow_device_array_stream",
}
# Names that are handed to capsules, which do not copy them.
STRINGS = {name: ctypes.create_string_buffer(name) for name in list(NAMES.values())}
for name in (b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned", b"something_else"):
    STRINGS[name] = ctypes.create_string_buffer(name)

api = ctypes.pythonapi
new = api.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
name_of = api.PyCapsule_GetName
name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
pointer_of = api.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
destructor_of = api.PyCapsule_GetDestructor
destructor_of.restype, destructor_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
rename = api.PyCapsule_SetName
rename.restype, rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_void_p]

malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]


def address(capsule):
    """Where what the capsule holds is."""
    return pointer_of(capsule, name_of(capsule))


def word(address):
    return ctypes.c_void_p.from_address(address)


def release_of(what, address):
    return word(address + RELEASES[what]).value


def move(what, source, destination):
    ctypes.memmove(destination, source, SIZES[what])
    word(source + RELEASES[what]).value = None


# Destructors that run no Python: an exception may be on its way when a capsule dies.
DESTRUCTORS = {
    SCHEMA: library.arrow_device_check_end_schema,
    ARRAY: library.arrow_device_check_end_array,
    DEVICE_ARRAY: library.arrow_device_check_end_array,
    STREAM: library.arrow_device_check_end_stream,
    DEVICE_STREAM: library.arrow_device_check_end_device_stream,
}


def capsule(what, source, name=None):
    """A capsule with a struct that is moved there."""
    address = malloc(SIZES[what])
    move(what, source, address)
    name = STRINGS[name or NAMES[what]]
    return new(address, ctypes.addressof(name), ctypes.cast(DESTRUCTORS[what], ctypes.c_void_p))


class Refused(Exception):
    pass


def opened(what, given):
    """The struct in a capsule, which must have the right name and hold something."""
    name = name_of(given)
    if name != NAMES[what]:
        raise Refused(f"the capsule is called {name} and not {NAMES[what]}")
    address = pointer_of(given, name)
    if not release_of(what, address):
        raise Refused("the capsule holds a released struct")
    return address


def take(what, given, destination):
    move(what, opened(what, given), destination)


def function():
    module, name = peer.split(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


# ---- what a producer's object gives


def put_array(thing, schema, array):
    if hasattr(thing, "__arrow_c_device_array__"):
        given_schema, given = thing.__arrow_c_device_array__()
        take(DEVICE_ARRAY, given, array)
    else:
        given_schema, given = thing.__arrow_c_array__()
        take(ARRAY, given, array)
        ctypes.c_int64.from_address(array + 80).value = -1
        ctypes.c_int32.from_address(array + 88).value = 1
        ctypes.memset(array + 96, 0, 32)
    take(SCHEMA, given_schema, schema)


def put_stream(thing, out):
    if hasattr(thing, "__arrow_c_device_stream__"):
        take(DEVICE_STREAM, thing.__arrow_c_device_stream__(), out)
        return
    given = thing.__arrow_c_stream__()
    library.arrow_device_check_wrap_stream(ctypes.c_void_p(opened(STREAM, given)), ctypes.c_void_p(out))


def put_tensor(thing, out, versioned):
    given = thing.__dlpack__(max_version=(1, 3)) if versioned else thing.__dlpack__()
    name = b"dltensor_versioned" if versioned else b"dltensor"
    if name_of(given) != name:
        raise Refused(f"the capsule is called {name_of(given)} and not {name}")
    word(out).value = pointer_of(given, name)
    rename(given, ctypes.addressof(STRINGS[b"used_" + name]))


def put(thing, *out):
    if kind == "array":
        put_array(thing, *out)
    elif kind == "stream":
        put_stream(thing, out[0])
    else:
        put_tensor(thing, out[0], kind == "dlpack")


# ---- what a consumer is given


class Array:
    """An array, with the methods that its device allows."""

    def __init__(self, schema, array):
        self.calls = []
        self.schema, self.array = capsule(SCHEMA, schema), capsule(DEVICE_ARRAY, array)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        if any(value is not None for value in kwargs.values()):
            raise NotImplementedError("no such argument is known")
        self.calls.append("device")
        return self.schema, self.array


class HostArray:
    """The same with the methods of the CPU alone."""

    def __init__(self, schema, array):
        self.schema, self.array = capsule(SCHEMA, schema), capsule(ARRAY, array)

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema, self.array


class Both(Array):
    """The same with the methods of the CPU, too."""

    def __arrow_c_array__(self, requested_schema=None):
        self.calls.append("host")
        return self.schema, capsule(ARRAY, pointer_of(self.array, NAMES[DEVICE_ARRAY]))


def is_plain(array):
    """Whether nothing is lost where a struct of a device is shown as one of the CPU."""
    on_cpu = ctypes.c_int32.from_address(array + 88).value == 1
    return on_cpu and word(array + 96).value is None


class Other(Array):
    """The same, whatever it is asked for."""

    wanted = None

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        self.wanted = requested_schema
        return super().__arrow_c_device_array__(None, **kwargs)


class Stream:
    """A stream, with the method of a device."""

    def __init__(self, stream, again=library.arrow_device_check_another_stream):
        self.calls = []
        self.again = again
        self.kept = ctypes.create_string_buffer(SIZES[DEVICE_STREAM])
        move(DEVICE_STREAM, stream, ctypes.addressof(self.kept))

    def next(self):
        """The address of the stream, and of another one like it for whoever asks again."""
        address = ctypes.addressof(self.kept)
        if not release_of(DEVICE_STREAM, address) and self.again(self.kept):
            raise ValueError("the stream was given already")
        return address

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        if any(value is not None for value in kwargs.values()):
            raise NotImplementedError("no such argument is known")
        self.calls.append("device")
        return capsule(DEVICE_STREAM, self.next())

    def __del__(self):
        address = ctypes.addressof(self.kept)
        release = release_of(DEVICE_STREAM, address)
        if release:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(address)


class PlainStream:
    """A stream with the method of the CPU."""

    def __init__(self, stream, *again):
        self.stream = Stream(stream, *again)
        self.calls = self.stream.calls

    def next(self):
        return self.stream.next()

    def __arrow_c_stream__(self, requested_schema=None):
        self.calls.append("host")
        plain = ctypes.create_string_buffer(SIZES[STREAM])
        library.arrow_device_check_plain_stream(ctypes.c_void_p(self.next()), plain)
        return capsule(STREAM, ctypes.addressof(plain))


class BothStreams(PlainStream):
    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        return self.stream.__arrow_c_device_stream__(requested_schema, **kwargs)


class Tensor:
    def __init__(self, address, versioned):
        name = b"dltensor_versioned" if versioned else b"dltensor"
        destructor = ctypes.cast(library.arrow_device_check_end_tensor, ctypes.c_void_p)
        self.given = new(address, ctypes.addressof(STRINGS[name]), destructor)
        device = address + (32 + 8 if versioned else 8)
        self.device = (ctypes.c_int32.from_address(device).value, ctypes.c_int32.from_address(device + 4).value)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        given, self.given = self.given, None
        return given

    def __dlpack_device__(self):
        return self.device


def offered(*given):
    if kind == "array":
        return Both(*given) if is_plain(given[1]) else Array(*given)
    if kind == "stream":
        return BothStreams(given[0]) if library.arrow_device_check_may_be_plain() else Stream(given[0])
    return Tensor(given[0], kind == "dlpack")


# ---- the entry point

EINVAL = 22


def call(first, second, third, fourth):
    try:
        if side == "producer":
            put(function()(), first, second)
        elif side == "consumer":
            function()(offered(first, second))
        else:
            # The object that was given is gone before the other is looked at.
            put(function()(offered(first, second)), third, fourth)
        return 0
    except BaseException:
        traceback.print_exc()
        said()
        return EINVAL
    finally:
        gc.collect()


# ---- what only Python has


def note(notes, verdict, rule, text=""):
    texts = [str(part).encode(errors="replace").replace(b"\0", b"") for part in (verdict, rule, text)]
    library.arrow_device_check_note(ctypes.c_void_p(notes), *texts)


def check(notes, rule, holds, text):
    note(notes, "pass" if holds else "fail", rule, "" if holds else text)
    return holds


def said():
    """Puts the traceback of the exception into the report, if something is said of it."""
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename != said.__code__.co_filename]
    lines = traceback.format_list(frames) + traceback.format_exception_only(*sys.exc_info()[:2])
    text = "".join(lines).rstrip()[-4000:]
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ")
    with open(os.environ["ARROW_DEVICE_CHECK_NOTES"], "a", encoding="utf-8", errors="replace") as notes:
        notes.write(f"said\t\t{text}\n")


def outcome(body):
    """What a call raised, as a name; None if it did not."""
    try:
        body()
        return None
    except BaseException as error:
        said()
        return f"{type(error).__name__}: {error}"


def protocol_of_producer(notes):
    thing = function()()
    if kind in ("dlpack", "dlpack-legacy"):
        return protocol_of_tensor(notes, thing)
    device, plain = {
        "array": ("__arrow_c_device_array__", "__arrow_c_array__"),
        "stream": ("__arrow_c_device_stream__", "__arrow_c_stream__"),
    }[kind]
    names = [NAMES[SCHEMA], NAMES[DEVICE_ARRAY if kind == "array" else DEVICE_STREAM]]
    method = getattr(thing, device, None)
    if method is None:
        note(notes, "skip", "PYC-3", f"there is no {device}; {plain} is used")
        method = getattr(thing, plain, None)
        names[1] = NAMES[ARRAY if kind == "array" else STREAM]
        if not check(notes, "PYC-6", method is not None, f"there is neither {device} nor {plain}"):
            return
    note(notes, "now", "PYC-1", "asking for capsules")
    given = method()
    given = given if kind == "array" else (given,)
    names = names if kind == "array" else names[1:]
    found = [name_of(part) for part in given]
    check(notes, "PYC-1", found == names, f"the capsules are called {found} and not {names}")
    ended = all(destructor_of(part) for part in given)
    check(notes, "PYC-2", ended, "a capsule has no destructor, so that nobody releases what nobody consumes")
    if kind == "array":
        # Each may be consumed once, by whoever asked.
        again = method()
        shared = any(address(one) == address(other) for one, other in zip(given, again))
        check(notes, "PYC-2", not shared, "two calls give the same capsule, which only one consumer can take")
        del again
    note(notes, "now", "PYC-2", "dropping capsules that nobody consumed")
    del given
    gc.collect()
    note(notes, "pass", "PYC-2")
    if method.__name__ == device:
        raised = outcome(lambda: method(None, unknown_argument=None))
        check(notes, "PYC-3", raised is None, f"an unknown argument that is None is refused: {raised}")
        raised = outcome(lambda: method(None, unknown_argument=1))
        is_right = raised is not None and raised.startswith("NotImplementedError")
        check(notes, "PYC-3", is_right, f"an unknown argument led to {raised} and not to a NotImplementedError")
    if kind == "array" and method.__name__ == device and hasattr(thing, plain):
        cpu_method(notes, method, getattr(thing, plain))
    note(notes, "now", "PYC-5", "asking for the schema that it has anyhow")
    if kind == "array":
        wanted = method()[0]
    elif hasattr(thing, "__arrow_c_schema__"):
        wanted = thing.__arrow_c_schema__()
    else:
        return note(notes, "skip", "PYC-5", "there is no __arrow_c_schema__ to ask with")
    raised = outcome(lambda: method(requested_schema=wanted))
    check(notes, "PYC-5", raised is None, f"it refuses the schema that it has as requested_schema: {raised}")


def cpu_method(notes, device, plain):
    """Data of a device is not given by the method for the CPU, unless it was copied."""
    note(notes, "now", "PYC-4", "asking for the data by the method for the CPU")
    there = device()[1]
    address = pointer_of(there, NAMES[DEVICE_ARRAY])
    where = ctypes.c_int32.from_address(address + 88).value
    try:
        here = plain()[1]
    except BaseException as error:
        return check(notes, "PYC-4", where != 1, f"data on the CPU is refused by the method for that: {error}")
    shared = buffers_of(address) & buffers_of(pointer_of(here, NAMES[ARRAY]))
    text = f"the method for the CPU gives data that is on type of device {where}"
    check(notes, "PYC-4", where == 1 or not shared, text)


def buffers_of(array):
    """The addresses that an array has itself."""
    count = ctypes.c_int64.from_address(array + 24).value
    table = ctypes.c_void_p.from_address(array + 40).value
    return {ctypes.c_void_p.from_address(table + 8 * index).value for index in range(count)} - {None}


def protocol_of_tensor(notes, thing):
    has = hasattr(thing, "__dlpack__") and hasattr(thing, "__dlpack_device__")
    if not check(notes, "DLP-3", has, "there is no __dlpack__, or no __dlpack_device__"):
        return
    raised = outcome(lambda: thing.__dlpack__(stream=None, max_version=(1, 3), dl_device=None, copy=None))
    check(notes, "DLP-3", raised is None, f"the keywords of the standard are refused: {raised}")
    raised = outcome(thing.__dlpack_device__)
    check(notes, "DLP-3", raised is None, f"__dlpack_device__ fails: {raised}")
    if raised is None:
        found = tuple(int(part) for part in thing.__dlpack_device__())
        check(notes, "DLP-9", len(found) == 2, f"__dlpack_device__ gives {found}")
    raised = outcome(lambda: thing.__dlpack__())
    if raised is not None and raised.startswith("BufferError") and is_read_only(thing):
        note(notes, "skip", "DLP-11", "it refuses the older form for read-only data, which that form cannot tell")
    else:
        name = raised or name_of(thing.__dlpack__())
        check(notes, "DLP-11", name == b"dltensor", f"without max_version it gives {name} and not a dltensor")
    note(notes, "now", "DLP-6", "dropping a capsule that nobody consumed")
    gc.collect()
    note(notes, "pass", "DLP-6")


def is_read_only(thing):
    """Whether the newer form has the flag that says so."""
    given = thing.__dlpack__(max_version=(1, 3))
    if name_of(given) != b"dltensor_versioned":
        return False
    return bool(ctypes.c_uint64.from_address(pointer_of(given, b"dltensor_versioned") + 24).value & 1)


def good_stream(form):
    made = ctypes.create_string_buffer(SIZES[DEVICE_STREAM])
    library.arrow_device_check_good_stream(made)
    return form(ctypes.addressof(made), library.arrow_device_check_good_stream)


class Misnamed(Stream):
    """Gives a capsule with another name."""

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        given = super().__arrow_c_device_stream__(requested_schema, **kwargs)
        rename(given, ctypes.addressof(STRINGS[b"something_else"]))
        return given


def methods_and_names(notes, take_it, methods, host, both, misnamed):
    """Gives a consumer an object of each kind, which the functions make: one with the CPU's methods alone, one with both kinds of
    methods, and one whose capsule has another name."""
    note(notes, "now", "PYC-6", f"giving an object with the CPU {methods} alone")
    raised = outcome(lambda: take_it(host()))
    check(notes, "PYC-6", raised is None, f"an object with only the CPU {methods} is refused: {raised}")
    both = both()
    raised = outcome(lambda: take_it(both))
    # Whether it then takes what it was given is another question.
    preferred = both.calls[:1] == ["device"]
    check(notes, "PYC-6", preferred, f"with both methods there it called {both.calls} ({raised})")
    note(notes, "now", "PYC-1", "giving a capsule with another name")
    wrong = misnamed()
    raised = outcome(lambda: take_it(wrong))
    check(notes, "PYC-1", raised is not None, "a capsule that is called something_else was taken")


def protocol_of_stream_consumer(notes):
    def given(form):
        return lambda: good_stream(form)

    methods_and_names(notes, function(), "method", given(PlainStream), given(BothStreams), given(Misnamed))


def protocol_of_consumer(notes):
    if kind == "stream":
        return protocol_of_stream_consumer(notes)
    if kind != "array":
        return
    take_it = function()
    shape = os.environ.get("ARROW_DEVICE_CHECK_SHAPE", "any")

    def given(form=Array, swap=False):
        return make_array(form, swap, shape == "batches")

    methods_and_names(notes, take_it, "methods", lambda: given(HostArray), lambda: given(Both), lambda: given(swap=True))
    note(notes, "now", "PYC-2", "giving the same capsules again")
    again = given()
    if outcome(lambda: take_it(again)) is None:
        raised = outcome(lambda: take_it(again))
        check(notes, "PYC-2", raised is not None, "capsules that hold nothing any more were taken")
    note(notes, "now", "PYC-5", "giving another type than it asks for")
    other = given(Other)
    raised = outcome(lambda: take_it(other))
    if other.wanted is None:
        return note(notes, "skip", "PYC-5", "it asks for no schema")
    # A refusal is an error that says so, and not a mistake of its own.
    fell_over = raised is not None and raised.split(":")[0] in MISTAKES
    text = f"it asked for a type, was given another, as it may be, and raised {raised}"
    check(notes, "PYC-5", not fell_over, text)


MISTAKES = ("AttributeError", "NameError", "UnboundLocalError", "AssertionError", "IndexError", "SystemError")


def make_array(form, swap, is_batch):
    """Three numbers, from the checker, as an array or as a record batch."""
    schema, array = ctypes.create_string_buffer(72), ctypes.create_string_buffer(128)
    library.arrow_device_check_numbers(schema, array, is_batch)
    made = form(ctypes.addressof(schema), ctypes.addressof(array))
    if swap:
        rename(made.array, ctypes.addressof(STRINGS[b"something_else"]))
    return made


def protocol(notes):
    try:
        if side == "producer":
            protocol_of_producer(notes)
        else:
            protocol_of_consumer(notes)
    except BaseException as error:
        traceback.print_exc()
        said()
        note(notes, "fail", "PEER", f"it raised {type(error).__name__}: {error}")


class Script(ctypes.Structure):
    CALL = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    PROTOCOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = [("call", CALL), ("protocol", PROTOCOL), ("begin", PROTOCOL), ("knows_devices", ctypes.c_int)]


def early_note(kind, rule, text):
    """Before the library writes them, in a file of its own."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    with open(os.environ["ARROW_DEVICE_CHECK_NOTES"], "a", encoding="utf-8", errors="replace") as notes:
        notes.write(f"{kind}\t{rule}\t{text}\n")


def absent(why):
    early_note("absent", "", why)
    sys.exit(1)


def look_for_peer():
    """What is not there cannot be tried, which is no finding."""
    module, name = peer.split(":")
    early_note("now", "PEER", "importing the module")
    try:
        importlib.import_module(module)
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            remedy = "run the check in its folder, set PYTHONPATH to that, or name another Python with --python-program"
            absent(f"{sys.executable} finds no module `{missing}`: {remedy}")
        absent(f"the module `{module}` cannot be imported: mend that first ({type(error).__name__}: {error})")
    try:
        found = function()
    except AttributeError as error:
        absent(f"the module `{module}` has no `{name}`: name a function that it has ({error})")
    if not callable(found):
        absent(f"`{name}` of the module `{module}` is a {type(found).__name__}: name a function that it has")


sys.path.insert(0, os.getcwd())
look_for_peer()
gc.collect()
gc.freeze()
begin = getattr(importlib.import_module(peer.split(":")[0]), "arrow_device_check_begin", None)
told = Script.PROTOCOL(begin or (lambda context: None))
script = Script(Script.CALL(call), Script.PROTOCOL(protocol), told, begin is not None)
library.arrow_device_check_child(ctypes.byref(script))
# What a peer still does at its end is not part of the scenario.
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
