"""What released packages make of a few rows, and how they take what they are given: peers for `arrow-device-check`.

`cargo xtask peers` runs them. Each function imports its package itself, so that one run loads one package.
"""

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
