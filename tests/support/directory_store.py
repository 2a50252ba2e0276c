"""A directory as an ObjectStore, by the rules of the protocol and nothing more."""

import os
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.store.errors import StoreError, StoreFailure, TooLargeError, file_system_error
from ci_doctor.store.objects import StoredObject


class DirectoryStore:
    """Objects are files below `folder`; each comes into being by one link(2)."""

    shared = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.location = str(folder)

    def read(self, name: str, limit: int) -> bytes | None:
        path = self.folder / name
        if not path.exists():
            return None
        if path.stat().st_size > limit:
            raise TooLargeError(f"{name} is larger than {limit} bytes")
        return path.read_bytes()

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(offset)
                content = file.read(length)
        except OSError as error:
            raise file_system_error("read", name, error) from error
        if len(content) != length:
            raise StoreError(StoreFailure.DAMAGED, f"{name} is shorter")
        return content

    def create(self, name: str, content: bytes) -> bool:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            temporary.write_bytes(content)
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            raise file_system_error("write", name, error) from error
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def names(self, prefix: str) -> Iterator[StoredObject]:
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if name.startswith(prefix) and path.is_file() and not path.name.startswith("."):
                status = path.stat()
                modified = status.st_mtime_ns // 1_000_000
                yield StoredObject(name=name, bytes=status.st_size, modified_ms=modified)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
