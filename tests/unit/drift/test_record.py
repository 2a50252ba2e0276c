# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib

from ci_doctor.drift.record import content_hash, digest_of, is_comparable, recorded_files


def line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(content)}"


def test_a_recorded_hash_is_the_one_of_the_content() -> None:
    files = recorded_files(line("x/a.py", b"text"))

    assert files == {"x/a.py": content_hash(hashlib.sha256(b"text").digest())}


def test_what_differs_from_machine_to_machine_is_left_out() -> None:
    text = "\n".join(
        [
            line("x/a.py", b"1"),
            line("../../../bin/x", b"2"),
            line("/etc/x.conf", b"3"),
            "x/__pycache__/a.cpython-312.pyc,,",
            line("x-1.dist-info/INSTALLER", b"4"),
            line("x-1.dist-info/METADATA", b"5"),
            "x-1.dist-info/RECORD,,",
        ]
    )

    assert list(recorded_files(text)) == ["x-1.dist-info/METADATA", "x/a.py"]


def test_a_name_with_a_comma_is_quoted() -> None:
    assert list(recorded_files(line('"x/a,""b"".py"', b"1"))) == ['x/a,"b".py']


def test_another_algorithm_stays_in_front_of_its_hash() -> None:
    files = recorded_files("x/a.py,sha512=abcdefghijklmnopqrstuvwxyz,3")

    assert files == {"x/a.py": "sha512=abcdefghijklmnop"}
    assert not is_comparable(files["x/a.py"])


def test_a_damaged_record_has_no_files() -> None:
    assert recorded_files("nonsense\n\n,,\n") == {}


def test_the_digest_knows_no_order() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    assert digest_of({"a": "1"}) != digest_of({"a": "2"})
