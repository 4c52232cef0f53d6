"""What released packages make of a few rows, and how they take what they are given: peers for `arrow-device-check`.

`cargo xtask peers` runs them. Each function imports its package itself, so that one run loads one package.
"""

import ctypes
import functools

ROWS = {"n": [1, None, 3], "t": ["tea", "milk", None]}


def of_pyarrow():
    import pyarrow as pa

    return pa.table(ROWS)


# ---- producers of arrays


def pyarrow_array():
    return of_pyarrow()["n"].chunk(0)


def pyarrow_batch():
    return of_pyarrow().to_batches()[0]


def nanoarrow_array():
    import nanoarrow as na

    return na.c_array([1, None, 3], na.int64())


def nanoarrow_device_array():
    import nanoarrow as na
    from nanoarrow.device import c_device_array

    return c_device_array(na.c_array([1, None, 3], na.int64()))


def arro3_array():
    from arro3.core import Array, DataType

    return Array([1, None, 3], type=DataType.int64())


def arro3_batch():
    from arro3.core import RecordBatch

    return RecordBatch.from_arrow(pyarrow_batch())


# ---- producers of streams


def pyarrow_table():
    return of_pyarrow()


def nanoarrow_stream():
    import nanoarrow as na

    return na.Array([1, None, 3], na.int64())


def arro3_table():
    from arro3.core import Table

    return Table.from_arrow(of_pyarrow())


def polars_series():
    import polars

    return polars.Series("t", ROWS["t"])


def polars_frame():
    import polars

    return polars.DataFrame(ROWS)


def pandas_frame():
    import pandas

    return pandas.DataFrame(ROWS)


def duckdb_relation():
    import duckdb

    return duckdb.connect().sql("select * from (values (1, 'tea'), (null, 'milk'), (3, null)) as rows(n, t)")


def datafusion_frame():
    from datafusion import SessionContext

    return SessionContext().sql("select * from (values (1, 'tea'), (null, 'milk'), (3, null)) as rows(n, t)")


def sedonadb_frame():
    import sedonadb

    return sedonadb.connect().sql("select * from (values (1, 'tea'), (null, 'milk'), (3, null)) as rows(n, t)")


def adbc_sqlite_result():
    from adbc_driver_sqlite import dbapi

    cursor = dbapi.connect().cursor()
    cursor.execute("select 1 as n, 'tea' as t union all select 3, null")
    return cursor.fetch_arrow()


# ---- producers of tensors


def pyarrow_tensor():
    import pyarrow as pa

    return pa.array([1, 2, 3], pa.int64())


def numpy_tensor():
    import numpy

    return numpy.arange(6).reshape(2, 3)


def jax_tensor():
    import jax.numpy

    return jax.numpy.arange(6).reshape(2, 3)


# ---- arrow-go, which is in the ADBC driver for Flight SQL


@functools.cache
def go_connection():
    """A connection of the driver to a server in this process, which has a few rows and takes any."""
    import adbc_driver_flightsql
    import adbc_driver_manager
    import pyarrow as pa
    import pyarrow.flight as flight

    rows = of_pyarrow()

    class Server(flight.FlightServerBase):
        def get_flight_info(self, context, descriptor):
            if b"CommandGetSqlInfo" in descriptor.command:
                raise NotImplementedError("it tells nothing of itself")
            return flight.FlightInfo(rows.schema, descriptor, [flight.FlightEndpoint(b"rows", [])], -1, -1)

        def do_get(self, context, ticket):
            return flight.RecordBatchStream(rows)

        def do_put(self, context, descriptor, reader, writer):
            reader.read_all()
            # One field of protocol buffers, the first: how many rows came, which nobody looks at.
            writer.write(pa.py_buffer(b"\x08\x00"))

    server = Server("grpc://127.0.0.1:0")
    database = adbc_driver_flightsql.connect(f"grpc://127.0.0.1:{server.port}")
    return server, adbc_driver_manager.AdbcConnection(database)


class GoReader:
    # The end of a statement is the end of what it gave.
    statements = []

    def __arrow_c_stream__(self, requested_schema=None):
        import adbc_driver_manager

        _, connection = go_connection()
        statement = adbc_driver_manager.AdbcStatement(connection)
        statement.set_sql_query("select")
        GoReader.statements.append(statement)
        return statement.execute_query()[0].__arrow_c_stream__()


def go_reader():
    return GoReader()


def go_takes_stream(thing):
    import adbc_driver_manager

    # The driver may still have the stream until its connection is closed.
    _, connection = go_connection.__wrapped__()
    with connection, adbc_driver_manager.AdbcStatement(connection) as statement:
        statement.set_options(**{"adbc.ingest.target_table": "rows", "adbc.ingest.mode": "adbc.ingest.mode.create"})
        statement.bind_stream(thing)
        statement.execute_update()


# ---- arrow-java, which is in a jar of the package jaydebeapiarrow


def java():
    """The packages of arrow-java, in a virtual machine of this process."""
    import pathlib

    import jaydebeapiarrow
    import jpype

    if not jpype.isJVMStarted():
        jars = pathlib.Path(jaydebeapiarrow.__file__).parent / "lib" / "*"
        options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Xmx128m", "-XX:ErrorFile=/dev/null"]
        jpype.startJVM(*options, classpath=[str(jars)])
    return jpype.JPackage("org").apache.arrow


def java_numbers(arrow, allocator):
    vector = arrow.vector.BigIntVector("n", allocator)
    vector.allocateNew(3)
    vector.set(0, 1)
    vector.setNull(1)
    vector.set(2, 3)
    vector.setValueCount(3)
    return vector


# Types of their own for Python's functions, which others call with others.
API = ctypes.PyDLL(None)
API.PyCapsule_GetPointer.restype = ctypes.c_void_p
API.PyCapsule_GetName.restype = ctypes.c_char_p
API.PyCapsule_New.restype = ctypes.py_object
API.PyCapsule_New.argtypes = [ctypes.c_void_p] * 3

# The name of a capsule, the size of its struct, and where the release is.
SCHEMA = (ctypes.create_string_buffer(b"arrow_schema"), 72, 56)
ARRAY = (ctypes.create_string_buffer(b"arrow_array"), 80, 64)
STREAM = (ctypes.create_string_buffer(b"arrow_array_stream"), 40, 24)

# Structs whose capsules are alive.
STRUCTS = {}


def struct(of):
    made = ctypes.create_string_buffer(of[1])
    STRUCTS[ctypes.addressof(made)] = (made, of[2])
    return ctypes.addressof(made)


def address(capsule, of):
    return API.PyCapsule_GetPointer(ctypes.py_object(capsule), of[0])


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def end(capsule):
    """Releases what a capsule holds, if nobody has taken it over."""
    capsule = ctypes.c_void_p(capsule)
    address = API.PyCapsule_GetPointer(capsule, ctypes.c_char_p(API.PyCapsule_GetName(capsule)))
    _, release = STRUCTS[address]
    release = ctypes.c_void_p.from_address(address + release).value
    if release:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(address)
    del STRUCTS[address]


def capsule(address, of):
    return API.PyCapsule_New(address, ctypes.addressof(of[0]), ctypes.cast(end, ctypes.c_void_p))


class JavaVector:
    def __init__(self):
        self.arrow = java()
        self.allocator = self.arrow.memory.RootAllocator()

    def __arrow_c_array__(self, requested_schema=None):
        c = self.arrow.c
        schema, array = struct(SCHEMA), struct(ARRAY)
        vector = java_numbers(self.arrow, self.allocator)
        c.Data.exportVector(self.allocator, vector, None, c.ArrowArray.wrap(array), c.ArrowSchema.wrap(schema))
        vector.close()
        return capsule(schema, SCHEMA), capsule(array, ARRAY)


def java_array():
    return JavaVector()


class JavaReader:
    def __init__(self):
        self.arrow = java()
        self.allocator = self.arrow.memory.RootAllocator()

    def __arrow_c_stream__(self, requested_schema=None):
        import jpype

        arrow, stream = self.arrow, struct(STREAM)
        root = arrow.vector.VectorSchemaRoot.of(java_numbers(arrow, self.allocator))
        root.setRowCount(3)
        written = jpype.JClass("java.io.ByteArrayOutputStream")()
        writer = arrow.vector.ipc.ArrowStreamWriter(root, None, written)
        writer.start()
        writer.writeBatch()
        writer.end()
        root.close()
        bytes = jpype.JClass("java.io.ByteArrayInputStream")(written.toByteArray())
        reader = arrow.vector.ipc.ArrowStreamReader(bytes, self.allocator)
        arrow.c.Data.exportArrayStream(self.allocator, reader, arrow.c.ArrowArrayStream.wrap(stream))
        return capsule(stream, STREAM)


def java_reader():
    return JavaReader()


def java_takes_array(thing):
    arrow = java()
    allocator = arrow.memory.RootAllocator()
    schema, array = thing.__arrow_c_array__()
    c = arrow.c
    schema_at, array_at = c.ArrowSchema.wrap(address(schema, SCHEMA)), c.ArrowArray.wrap(address(array, ARRAY))
    # It keeps what dictionaries the array has.
    provider = c.CDataDictionaryProvider()
    try:
        vector = c.Data.importVector(allocator, array_at, schema_at, provider)
        vector.getValueCount()
        vector.close()
    finally:
        provider.close()


def java_takes_stream(thing):
    arrow = java()
    allocator = arrow.memory.RootAllocator()
    stream = thing.__arrow_c_stream__()
    reader = arrow.c.Data.importArrayStream(allocator, arrow.c.ArrowArrayStream.wrap(address(stream, STREAM)))
    try:
        while reader.loadNextBatch():
            reader.getVectorSchemaRoot().getRowCount()
    finally:
        reader.close()


# ---- consumers of arrays


def pyarrow_takes_array(thing):
    import pyarrow as pa

    pa.array(thing).validate(full=True)


def pyarrow_takes_batch(thing):
    import pyarrow as pa

    pa.record_batch(thing).validate(full=True)


def nanoarrow_takes_array(thing):
    import nanoarrow as na

    na.c_array(thing).view()


def arro3_takes_array(thing):
    from arro3.core import Array

    len(Array.from_arrow(thing))


def polars_takes_array(thing):
    import polars

    polars.Series(thing).to_list()


# ---- consumers of streams


def pyarrow_takes_stream(thing):
    import pyarrow as pa

    pa.RecordBatchReader.from_stream(thing).read_all()


def nanoarrow_takes_stream(thing):
    import nanoarrow as na

    for chunk in na.ArrayStream(thing):
        chunk.to_pylist()


def arro3_takes_stream(thing):
    from arro3.core import RecordBatchReader

    RecordBatchReader.from_arrow(thing).read_all()


def polars_takes_stream(thing):
    import polars

    polars.DataFrame(thing).rows()


def pandas_takes_stream(thing):
    import pandas

    pandas.DataFrame.from_arrow(thing)


def duckdb_takes_stream(thing):
    import duckdb

    connection = duckdb.connect()
    connection.register("rows", thing)
    connection.sql("select * from rows").fetchall()


def datafusion_takes_stream(thing):
    from datafusion import SessionContext

    SessionContext().from_arrow(thing).collect()


def sedonadb_takes_stream(thing):
    import sedonadb

    sedonadb.connect().create_data_frame(thing).execute()


def adbc_sqlite_takes_stream(thing):
    from adbc_driver_sqlite import dbapi

    with dbapi.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("rows", thing)


# ---- consumers of tensors


def pyarrow_takes_tensor(thing):
    import pyarrow as pa

    pa.FixedShapeTensorArray.from_dlpack(thing)


def numpy_takes_tensor(thing):
    import numpy

    numpy.from_dlpack(thing).sum()


def jax_takes_tensor(thing):
    import jax.dlpack

    jax.dlpack.from_dlpack(thing).block_until_ready()
