"""Streams that are read in an event loop: `to_async`."""

import asyncio
import concurrent.futures
import gc
import threading

import pyarrow as pa
import pytest

import arrow_device as ad
from support import until

TABLE = pa.table({"x": pa.chunked_array([[1, 2], [3]]), "y": pa.chunked_array([["a", None], ["c"]])})


def test_a_stream_is_read_asynchronously():
    async def read():
        s = ad.stream(TABLE).to_async()
        assert s.schema.names == ["x", "y"] and "AsyncStream" in repr(s)
        first = await anext(s)
        rest = [batch async for batch in s]
        return [pa.record_batch(batch) for batch in [first, *rest]]

    assert pa.Table.from_batches(asyncio.run(read())).equals(TABLE)


def test_an_asynchronous_stream_blocks_no_event_loop_and_loses_nothing_to_a_cancelled_task():
    go = threading.Event()

    def chunks():
        yield pa.array([0])
        go.wait()
        yield pa.array([1])

    async def read():
        s = ad.stream(chunks()).to_async()
        await anext(s)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(s), 0.05)
        go.set()
        return [pa.array(chunk).to_pylist() async for chunk in s]

    assert asyncio.run(read()) == [[1]]


@pytest.mark.parametrize("fails", [False, True])
def test_each_array_of_an_asynchronous_stream_goes_to_one_of_many_tasks(fails):
    def chunks():
        for number in range(60):
            yield pa.array([number])
        if fails:
            raise LookupError("no more")

    async def read(s, seen, errors):
        try:
            async for chunk in s:
                seen += pa.array(chunk).to_pylist()
        except LookupError as error:
            errors.append(error)

    async def read_all():
        s, seen, errors = ad.stream(chunks()).to_async(), [], []
        await asyncio.gather(*(read(s, seen, errors) for _ in range(3)))
        return seen, len(errors)

    seen, errors = asyncio.run(read_all())
    assert sorted(seen) == list(range(60)) and errors == int(fails)


def test_an_asynchronous_stream_raises_what_its_source_raises():
    def chunks():
        yield pa.array([0])
        raise LookupError("no more")

    async def read():
        s = ad.stream(chunks()).to_async()
        await anext(s)
        await anext(s)

    with pytest.raises(LookupError, match="no more"):
        asyncio.run(read())


def test_what_one_event_loop_asked_for_is_given_to_the_next():
    go = threading.Event()

    def chunks():
        for number in range(3):
            if number == 1:
                go.wait()
            yield pa.array([number])

    s = ad.stream(chunks()).to_async()

    async def ask():
        await anext(s)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(s), 0.05)
        go.set()

    async def rest():
        return [pa.array(chunk).to_pylist() async for chunk in s]

    asyncio.run(ask())
    assert asyncio.run(rest()) == [[1], [2]]


def test_an_asynchronous_stream_is_closed_after_what_is_being_read():
    go, ended = threading.Event(), []

    def chunks():
        try:
            yield pa.array([0])
            go.wait()
            yield pa.array([1])
        finally:
            ended.append(True)

    async def read():
        async with ad.stream(chunks()).to_async() as s:
            await anext(s)
            waiting = asyncio.ensure_future(anext(s, None))
            await asyncio.sleep(0.05)
            go.set()
        assert [chunk async for chunk in s] == [] and await anext(s, None) is None
        await s.aclose()
        return await waiting

    assert asyncio.run(read()) is None
    gc.collect()
    assert ended == [True]


def test_an_array_is_not_lost_where_the_thread_that_reads_it_cannot_start(monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    async def read():
        s = ad.stream(pa.array([number]) for number in range(3)).to_async()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await anext(s)
        return [pa.array(chunk).to_pylist() async for chunk in s]

    assert asyncio.run(asyncio.wait_for(read(), 60)) == [[0], [1], [2]]


@pytest.mark.parametrize("cancels", [False, True])
def test_a_read_that_the_executor_drops_is_an_error_and_the_next_one_reads(cancels):
    def fail():
        raise ValueError

    def busy(pool, go):
        """Keeps the thread of a pool busy until the reads behind that are cancelled."""
        pool.submit(go.wait)
        threading.Timer(0.05, lambda: (pool.shutdown(wait=False, cancel_futures=True), go.set())).start()

    async def dropped():
        pool = concurrent.futures.ThreadPoolExecutor(1, initializer=None if cancels else fail)
        asyncio.get_running_loop().set_default_executor(pool)
        if cancels:
            busy(pool, threading.Event())
        await asyncio.wait_for(anext(s), 60)

    async def read():
        return [pa.array(chunk).to_pylist() async for chunk in s]

    s = ad.stream(pa.array([number]) for number in range(3)).to_async()
    with pytest.raises(RuntimeError, match="dropped the read" if cancels else "initializer"):
        asyncio.run(dropped())
    assert asyncio.run(asyncio.wait_for(read(), 60)) == [[0], [1], [2]]


def test_a_source_that_raises_stop_async_iteration_does_not_end_the_loop():
    class Chunks:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopAsyncIteration("too soon")

    async def read():
        return [chunk async for chunk in ad.stream(Chunks(), schema=pa.int64()).to_async()]

    with pytest.raises(RuntimeError, match="the source of the stream raised StopAsyncIteration") as raised:
        asyncio.run(read())
    assert type(raised.value.__cause__) is StopAsyncIteration


def test_an_answer_that_is_there_takes_no_turn_of_the_event_loop():
    go = threading.Event()

    def chunks():
        go.wait()
        yield pa.array([0])

    async def read():
        s = ad.stream(chunks(), schema=pa.int64()).to_async()
        asking = anext(s)
        asking.send(None)
        asking.close()
        go.set()
        until(s._asked.done)
        with pytest.raises(StopIteration) as ended:
            anext(s).send(None)
        return pa.array(ended.value.value).to_pylist()

    assert asyncio.run(read()) == [0]
