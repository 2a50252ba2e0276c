# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and on the user's cache: the releases of a package, and the source in their files."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from ci_doctor.compat.index.pip_settings import PipSettings
from ci_doctor.compat.index.published import (
    PublishedFile,
    PublishedRelease,
    best_files,
    html_files,
    json_files,
)
from ci_doctor.compat.index.range_file import NoRangesError, RangeFile
from ci_doctor.compat.sources.code_tree import LARGEST_SOURCE, CodeTree
from ci_doctor.compat.sources.sdist import sdist_tree
from ci_doctor.compat.sources.wheel import is_inside, wheel_tree
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.files.writing import write_atomically

_JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPT: Final = f"{_JSON}, text/html;q=0.5"
# What is downloaded whole: an sdist, or a wheel of a server without ranges.
_LARGEST_DOWNLOAD: Final = 512 * 2**20
_LARGEST_PAGE: Final = 64 * 2**20


def cache_directory(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> Path:
    """Where source that was read once is kept."""
    cache = environ.get("XDG_CACHE_HOME")
    root = Path(cache) if cache else Path(environ.get("HOME", "/")) / ".cache"
    return root / "ci-doctor" / "compat"


class PackageIndex:
    """The indexes that pip is configured with."""

    def __init__(self, settings: PipSettings, cache: Path) -> None:
        import ssl

        import httpx

        verify: ssl.SSLContext | bool = True
        if settings.certificates is not None:
            verify = ssl.create_default_context(cafile=settings.certificates)
        self._settings = settings
        self._cache = cache
        self._client = httpx.Client(follow_redirects=True, timeout=60, verify=verify)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def versions(self, name: str) -> list[PublishedRelease]:
        """The releases of a package, oldest first.

        Raises UsageError if no index has it, InfraError if none answers.
        """
        files: list[PublishedFile] = []
        failures: list[str] = []
        for index in self._settings.indexes:
            page = f"{index}/{canonicalize_name(name)}/"
            try:
                files += self._page(page)
            except OSError as error:
                failures.append(str(error))
        for place in self._settings.find_links:
            files += self._links(place)
        published = best_files(name, files)
        if published:
            return published
        if failures:
            raise InfraError("; ".join(failures), hint="see `pip config list`, and try again")
        raise UsageError(f"no index has {name}", hint="see `pip config list`")

    def _page(self, page: str) -> list[PublishedFile]:
        if page.startswith("file:"):
            folder = Path(unquote(urlsplit(page).path))
            index = folder / "index.html"
            return html_files(index.read_text(), page) if index.is_file() else []
        content, media_type = self._get(page)
        if content is None:
            return []
        if media_type.startswith("text/html"):
            return html_files(content.decode("utf-8", "replace"), page)
        try:
            return json_files(content, page)
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"{page} is no page of a simple index: {error}") from error

    def _get(self, page: str) -> tuple[bytes | None, str]:
        import httpx

        try:
            response = self._client.get(page, headers={"Accept": _ACCEPT})
        except httpx.HTTPError as error:
            raise OSError(f"{page}: {error}") from error
        if response.status_code == 404:
            return None, ""
        if response.status_code != 200:
            raise OSError(f"{page} answers {response.status_code}")
        return response.content[:_LARGEST_PAGE], response.headers.get("content-type", "")

    def _links(self, place: str) -> list[PublishedFile]:
        folder = Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)
        if not folder.is_dir():
            return self._page(place) if place.startswith("http") else []
        return [
            PublishedFile(filename=each.name, address=each.resolve().as_uri())
            for each in sorted(folder.iterdir())
        ]

    def tree(self, release: PublishedRelease) -> CodeTree:
        """The source of a release. Raises InfraError if its file cannot be read."""
        file = release.file
        try:
            if file.address.startswith("file:"):
                return self._local(Path(unquote(urlsplit(file.address).path)), release)
            kept = self._kept(file)
            if not kept.is_file():
                self._keep(file, kept)
            return self._local(kept, release)
        except OSError as error:
            raise InfraError(
                f"{release.label}: {error}", hint="try again, or name a local file"
            ) from error

    def _local(self, path: Path, release: PublishedRelease) -> CodeTree:
        digest = release.file.sha256
        if release.file.filename.endswith((".whl", ".zip")):
            return wheel_tree(path, release.label, digest)
        return sdist_tree(path, release.label)

    def _kept(self, file: PublishedFile) -> Path:
        key = hashlib.sha256((file.sha256 or file.address).encode()).hexdigest()
        return self._cache / f"{key}-{file.filename.rpartition('/')[2]}"

    def _keep(self, file: PublishedFile, kept: Path) -> None:
        if not file.filename.endswith(".whl"):
            write_atomically(kept, self._whole(file))
            return
        try:
            remote = RangeFile(self._client, file.address)
        except NoRangesError:
            write_atomically(kept, source_alone(io.BytesIO(self._whole(file))))
            return
        write_atomically(kept, source_alone(remote))

    def _whole(self, file: PublishedFile) -> bytes:
        import httpx

        digest = hashlib.sha256()
        content = bytearray()
        try:
            with self._client.stream("GET", file.address) as response:
                if response.status_code != 200:
                    raise OSError(f"{file.address} answers {response.status_code}")
                for part in response.iter_bytes():
                    content += part
                    digest.update(part)
                    if len(content) > _LARGEST_DOWNLOAD:
                        raise OSError(f"{file.filename} is larger than 512 MiB")
        except httpx.HTTPError as error:
            raise OSError(f"{file.address}: {error}") from error
        if file.sha256 is not None and digest.hexdigest() != file.sha256:
            raise OSError(f"{file.filename} has another SHA-256 than its index says")
        return bytes(content)


def source_alone(file: "io.RawIOBase | io.BytesIO") -> bytes:
    """A wheel with the source and the metadata of `file` alone. Raises OSError if it is no wheel.

    What is compiled stays by name, without content: a module of that name is known to exist.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _copied(archive, file)
    except zipfile.BadZipFile as error:
        raise OSError(f"the wheel cannot be read: {error}") from error


def _copied(archive: zipfile.ZipFile, file: "io.RawIOBase | io.BytesIO") -> bytes:
    infos = [each for each in archive.infolist() if is_inside(each.filename)]
    wanted = [
        each
        for each in infos
        if each.filename.endswith((".py", ".dist-info/METADATA"))
        and each.file_size <= LARGEST_SOURCE
    ]
    if sum(each.file_size for each in wanted) > _LARGEST_DOWNLOAD:
        raise OSError("the wheel has more than 512 MiB of source")
    if isinstance(file, RangeFile):
        # The local header repeats the name and may have an extra field of any size.
        spans = [
            (each.header_offset, each.header_offset + each.compress_size + len(each.filename) + 512)
            for each in wanted
        ]
        file.want(spans)
    copied = io.BytesIO()
    with zipfile.ZipFile(copied, "w", zipfile.ZIP_DEFLATED) as slim:
        for each in infos:
            if each in wanted:
                slim.writestr(each.filename, archive.read(each))
            elif each.filename.endswith((".so", ".pyd")):
                slim.writestr(each.filename, b"")
    return copied.getvalue()
