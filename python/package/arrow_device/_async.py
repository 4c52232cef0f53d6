"""Streams that are read by ``async for``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from arrow_device._native import Array, Schema, Stream

_Chunk = TypeVar("_Chunk", bound="Array", covariant=True)

__all__ = ["AsyncStream"]

_END = object()


class AsyncStream(Generic[_Chunk]):
    """An asynchronous iterator over the arrays of a ``Stream``.

    A thread of the event loop's executor reads the arrays, one at a time. Several tasks may read one stream: each array goes to
    one of the tasks. If a task is cancelled while it waits, no array is lost: the next task that asks gets the array, also on
    another event loop.

    >>> import arrow_device as ad, asyncio, pyarrow as pa
    >>> async def lengths():
    ...     async with ad.stream(pa.table({"x": [1, 2]})).to_async() as stream:
    ...         return [len(batch) async for batch in stream]
    >>> asyncio.run(lengths())
    [2]
    """

    def __init__(self, stream: Stream[_Chunk]) -> None:
        self._stream = stream
        # An array that was asked for and that no task has yet. The future belongs to no event loop,
        # because the loop of the task that asked may be closed before the answer.
        self._asked: concurrent.futures.Future[object] | None = None
        self._is_closed = False

    @property
    def schema(self) -> Schema:
        """The schema of every array."""
        return self._stream.schema

    @property
    def device_type(self) -> str:
        """The type of device that every array is on."""
        return self._stream.device_type

    def __aiter__(self) -> AsyncStream[_Chunk]:
        return self

    async def __anext__(self) -> _Chunk:
        while not self._is_closed:
            asked = self._asked or self._ask()
            await _until(asked)
            if self._asked is not asked:
                continue  # Another task has the answer.
            self._asked = None
            array = asked.result()
            if array is _END:
                break
            return cast("_Chunk", array)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Closes the stream, once the array that is being read has come. The iterator gives no array after this."""
        self._is_closed = True
        asked, self._asked = self._asked, None
        if asked is not None:
            await _until(asked)
        await asyncio.get_running_loop().run_in_executor(None, self._stream.close)

    async def __aenter__(self) -> AsyncStream[_Chunk]:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return repr(self._stream).replace("Stream", "AsyncStream", 1)

    def _ask(self) -> concurrent.futures.Future[object]:
        """Asks the stream for an array, on another thread."""
        # Kept before the executor has it: an exception of a signal may come at any time.
        asked: concurrent.futures.Future[object] = concurrent.futures.Future()
        self._asked = asked

        def read() -> None:
            if not asked.set_running_or_notify_cancel():
                return
            try:
                array = next(self._stream, _END)
            except StopAsyncIteration as error:
                # Whoever reads the stream would take this exception for the end of the stream.
                raised = RuntimeError("the source of the stream raised StopAsyncIteration")
                raised.__cause__ = error
                asked.set_exception(raised)
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                asked.set_exception(error)
            else:
                asked.set_result(array)

        def on_end(ended: asyncio.Future[None]) -> None:
            # An executor that cannot run what is in its queue drops the read.
            error = None if ended.cancelled() else ended.exception()
            if not asked.done():
                asked.set_exception(error or RuntimeError("the executor of the event loop has dropped the read"))

        try:
            asyncio.get_running_loop().run_in_executor(None, read).add_done_callback(on_end)
        except BaseException:
            # An executor whose thread cannot start may have the read in its queue all the same, and
            # do it later. A read that was cancelled takes no array from the stream.
            if asked.cancel():
                self._asked = None
            raise
        return asked


async def _until(asked: concurrent.futures.Future[object]) -> None:
    """Waits for an answer. A task that is cancelled during the wait leaves the answer to other tasks."""
    if asked.done():
        return
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def on_answer(_: object) -> None:
        # No task waits on a loop that is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    asked.add_done_callback(on_answer)
    await waiter


AsyncStream.__module__ = "arrow_device"
