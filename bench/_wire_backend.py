"""The fast model server behind `bench.overhead`: constant answers chosen by the request's model name.

``instant`` answers at once, ``slow`` after 10 ms, ``paced:COUNT:MS`` streams COUNT events MS apart, each
stamped with the monotonic clock. With ``"stream": true`` the others stream a few events at once.
"""

import asyncio
import re
import sys
import time

import uvloop

JSON = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1764417600,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"A short answer."},"finish_reason":"stop"}],"usage":'
    b'{"prompt_tokens":2000,"completion_tokens":4,"total_tokens":2004,"prompt_tokens_details":{"cached_tokens":1900}}}'
)
EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764417600,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":"%d "},"finish_reason":null}]}\n\n'
)
LAST = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764417600,"model":"m","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(JSON),
    JSON,
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": *"([a-z]+)(?::(\d+):(\d+))?"')
STREAMED = re.compile(rb'"stream": *true')


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event() -> bytes:
    """One stamped event."""
    return chunk(EVENT % time.monotonic_ns())


class Server(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport):
        self._transport = transport
        self._parts = []
        self._size = self._wanted = 0
        self._pacing = None

    def connection_lost(self, _):
        if self._pacing is not None:
            self._pacing.cancel()

    def data_received(self, data):
        if not self._parts:
            end = data.find(b"\r\n\r\n")  # a head fits into one read here
            length = LENGTH.search(data, 0, end)
            self._wanted = end + 4 + (int(length[1]) if length else 0)
            self._size = 0
        self._parts.append(data)
        self._size += len(data)
        if self._size >= self._wanted:
            request = b"".join(self._parts)
            self._parts = []
            self._answer(request)

    def _answer(self, request):
        model = MODEL.search(request)
        if model is None:
            self._transport.write(WHOLE)
            return
        name, count, gap = model.groups()
        if name == b"paced":
            self._transport.write(STREAM)
            self._pace(int(count), int(gap) / 1000)
            return
        answer = STREAM + event() * 4 + chunk(LAST) + b"0\r\n\r\n" if STREAMED.search(request) else WHOLE
        if name == b"slow":
            asyncio.get_running_loop().call_later(0.01, self._transport.write, answer)
        else:
            self._transport.write(answer)

    def _pace(self, left, gap):
        if not left:
            self._transport.write(chunk(LAST) + b"0\r\n\r\n")
            return
        self._transport.write(event())
        self._pacing = asyncio.get_running_loop().call_later(gap, self._pace, left - 1, gap)


async def main(port):
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
