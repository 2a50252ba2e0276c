# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and files: fetch_wheel.py SOURCE SHA256 DIRECTORY copies a wheel and prints where it lies.

SOURCE is a path or a URL. Only what has the digest gets the wheel's name. Exit status 2 if it has another digest or is
not there, 75 if it cannot be read. Needs the standard library alone, because no ci-doctor is installed yet.
"""

import hashlib
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Of one read; lib/install.bash bounds the whole installation.
TIMEOUT_SECONDS = 60.0


def main(source: str, sha256: str, directory: str) -> int:
    """Copy the wheel, and give back the exit status."""
    is_url = "://" in source
    name = Path(unquote(urlsplit(source).path) if is_url else source).name
    part = Path(directory, "wheel.part")
    try:
        if is_url:
            download(source, part)
        else:
            shutil.copyfile(source, part)
    except FileNotFoundError:
        return refuse(f"there is no {source}", 2)
    except urllib.error.HTTPError as error:
        return refuse(f"{source}: HTTP {error.code}", 2 if error.code in (404, 410) else 75)
    except OSError as error:
        return refuse(f"{source} cannot be read: {error}", 75)
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256.lower():
        return refuse(
            f"{source} has the sha256 {digest}, and the option `install` wants {sha256}", 2
        )
    print(part.replace(Path(directory, name)))
    return 0


def download(url: str, part: Path) -> None:
    """Raises OSError, of which HTTPError is one."""
    # install.bash has checked the scheme.
    with (
        urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer,  # noqa: S310
        part.open("wb") as file,
    ):
        shutil.copyfileobj(answer, file)


def refuse(sentence: str, status: int) -> int:
    """Say what is wrong, and give back `status`."""
    print(f"ci-doctor: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
