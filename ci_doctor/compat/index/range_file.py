# SPDX-License-Identifier: Apache-2.0
"""Reads a remote file in blocks, by HTTP range requests (RFC 9110, 14), as one that can be seeked."""

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

_BLOCK: Final = 256 * 1024
_MOST_GAP: Final = 8


class NoRangesError(Exception):
    """The server does not answer range requests."""


class RangeFile(io.RawIOBase):
    """A remote file. Blocks are kept. Raises OSError if the server stops answering."""

    def __init__(self, client: "httpx.Client", address: str) -> None:
        super().__init__()
        self._client = client
        self._address = address
        self._position = 0
        self._blocks: dict[int, bytes] = {}
        self.fetched = 0
        self.size = self._first()

    def _first(self) -> int:
        response = self._get(0, 0)
        if response.status_code != 206:
            raise NoRangesError(self._address)
        total = response.headers.get("content-range", "").rpartition("/")[2]
        if not total.isdecimal():
            raise NoRangesError(self._address)
        return int(total)

    def _get(self, first: int, last: int) -> "httpx.Response":
        import httpx

        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        try:
            with self._client.stream("GET", self._address, headers=headers) as response:
                if response.status_code == 206:
                    response.read()
                elif response.status_code != 200:
                    raise OSError(f"{self._address} answers {response.status_code}")
        except httpx.HTTPError as error:
            raise OSError(f"{self._address}: {error}") from error
        return response

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether it can be seeked: always."""
        return True

    def tell(self) -> int:
        """The position, in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the position on."""
        end = self.size if size < 0 else min(self.size, self._position + size)
        if end <= self._position:
            return b""
        first, last = self._position // _BLOCK, (end - 1) // _BLOCK
        self._need(first, last)
        joined = b"".join(self._blocks[each] for each in range(first, last + 1))
        start = self._position - first * _BLOCK
        content = joined[start : start + end - self._position]
        self._position = end
        return content

    def want(self, spans: list[tuple[int, int]]) -> None:
        """Fetch these spans of bytes (first, end) in few requests: near ones become one."""
        blocks = sorted({each for start, end in spans for each in _blocks_of(start, end)})
        run: list[int] = []
        for block in blocks:
            if run and block - run[-1] > _MOST_GAP:
                self._need(run[0], run[-1])
                run = []
            run.append(block)
        if run:
            self._need(run[0], run[-1])

    def _need(self, first: int, last: int) -> None:
        while first <= last and first in self._blocks:
            first += 1
        while last >= first and last in self._blocks:
            last -= 1
        if first > last:
            return
        start, end = first * _BLOCK, min(self.size, (last + 1) * _BLOCK)
        response = self._get(start, end - 1)
        content = response.content if response.status_code == 206 else b""
        if len(content) != end - start:
            raise OSError(f"{self._address} answers another range than asked")
        self.fetched += len(content)
        for block in range(first, last + 1):
            offset = (block - first) * _BLOCK
            self._blocks[block] = content[offset : offset + _BLOCK]


def _blocks_of(start: int, end: int) -> range:
    return range(start // _BLOCK, (max(start, end - 1)) // _BLOCK + 1)
