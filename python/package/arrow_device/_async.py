"""Streams that are read by ``async for``."""

from __future__ import annotations

import asyncio

__all__ = ["AsyncStream"]

_END = object()


class AsyncStream:
    """An asynchronous iterator over the arrays of a ``Stream``.

    Each array is asked for on a thread of the event loop's executor, one at a time. Several tasks may read one stream: each
    array goes to one of them. A task that is cancelled while it waits loses nothing: whoever asks next gets the array.
    """

    def __init__(self, stream):
        self._stream = stream
        self._asked = None

    @property
    def schema(self):
        """The schema of every array."""
        return self._stream.schema

    @property
    def device_type(self):
        """The type of device that every array is on."""
        return self._stream.device_type

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            if self._asked is None:
                loop = asyncio.get_running_loop()
                self._asked = loop.run_in_executor(None, next, self._stream, _END)
            asked = self._asked
            try:
                array = await asyncio.shield(asked)
            except BaseException as error:
                is_of_stream = asked.done() and not asked.cancelled() and asked.exception() is error
                if is_of_stream and self._asked is not asked:
                    continue  # Another task was told.
                if is_of_stream:
                    self._asked = None
                raise
            if self._asked is not asked:
                continue  # Another task has the array.
            self._asked = None
            if array is _END:
                raise StopAsyncIteration
            return array

    def __repr__(self):
        return repr(self._stream).replace("Stream", "AsyncStream", 1)


AsyncStream.__module__ = "arrow_device"
