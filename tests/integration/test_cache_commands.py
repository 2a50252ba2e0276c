"""`ci-doctor cache` as a job calls it, over a directory as the store."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Ran, inside

pytestmark = pytest.mark.integration

NOTHING: Mapping[str, str] = {}
SECOND = 1_000_000_000


class Workplace:
    """A store, a cache of Triton's form, and an environment of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.cache = folder / "caches" / "mine"
        (folder / "run").mkdir(mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def compile(self, *names: str, began: int = 1_000) -> None:
        """Write a file per kernel, two seconds apart."""
        self.cache.mkdir(parents=True, exist_ok=True)
        for place, name in enumerate(names):
            path = self.cache / name
            path.write_bytes(os.urandom(300))
            time = (began + 2 * place) * SECOND
            os.utime(path, ns=(time, time))

    def compile_and_restore(self, *names: str) -> None:
        """What one job has compiled and saved, in the directory of the next one."""
        self.compile(*names)
        self.transfer("save")
        shutil.rmtree(self.cache)
        self.transfer("restore")

    def run(self, *words: str, environment: Mapping[str, str] = NOTHING) -> Ran:
        """Run `ci-doctor cache WORDS` with this environment alone."""
        env = {**dict.fromkeys(os.environ), **self.environment, **environment}
        return inside("cache", *words, cwd=self.folder, env=env)

    def facts(
        self, *words: str, code: int = 0, environment: Mapping[str, str] = NOTHING
    ) -> dict[str, Any]:
        """The facts of a command with the store and the family."""
        ended = self.run(*words, "--json", environment=environment)
        assert ended.code == code, ended
        facts: dict[str, Any] = json.loads(ended.out)["facts"]
        return facts

    @property
    def family(self) -> tuple[str, str]:
        return ("--family", f"mine={self.cache}")

    def transfer(
        self, name: str, *words: str, code: int = 0, environment: Mapping[str, str] = NOTHING
    ) -> dict[str, Any]:
        store = ("--store", str(self.store), "--python", sys.executable)
        return self.facts(name, *store, *self.family, *words, code=code, environment=environment)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def read_by_name(directory: Path, *names: str) -> None:
    """As a library does: it lists no directory."""
    for name in names:
        (directory / name).read_bytes()


def test_what_one_job_saves_the_next_one_restores_and_both_say_so(place: Workplace) -> None:
    place.compile("a.so", "b.so", "c.so")
    before = contents(place.cache)
    (saved,) = place.transfer("save")["caches"]
    shutil.rmtree(place.cache)

    (restored,) = place.transfer("restore")["caches"]
    (again,) = place.transfer("save")["caches"]

    assert (saved["result"], saved["cold_s"], saved["cold_source"]) == ("saved", 4.0, "file times")
    assert (restored["result"], restored["files"]) == ("restored", 3)
    assert contents(place.cache) == before
    assert again["result"] == "unchanged", "nothing was added to it"


def test_a_restored_cache_that_is_read_has_paid_and_one_that_is_compiled_again_has_not(
    place: Workplace,
) -> None:
    place.compile_and_restore("a.so", "b.so", "c.so")

    (unread,) = place.facts("verify", "--effect", *place.family)["caches"]
    read_by_name(place.cache, "a.so", "b.so", "c.so")
    (read,) = place.facts("verify", "--effect", *place.family)["caches"]
    place.compile("x.so", "y.so", "z.so", began=4_000_000_000)
    strict = place.facts("verify", "--effect", "--strict", *place.family, code=1)

    assert (unread["effect"], unread["saved_s"]) == ("inert", None)
    assert (read["effect"], read["compiled"], read["saved_s"]) == ("paid", 0, 4.0)
    (inert,) = strict["caches"]
    assert (inert["effect"], inert["compiled"], inert["saved_s"]) == ("inert", 3, None)


@pytest.mark.nightly
def test_a_program_that_reads_every_file_proves_nothing(place: Workplace) -> None:
    place.compile_and_restore("a.so", "b.so", "c.so")

    subprocess.run(["grep", "-r", "-q", "nothing of this", str(place.cache)], check=False)

    (effect,) = place.facts("verify", "--effect", *place.family)["caches"]
    assert (effect["effect"], effect["saved_s"]) == ("unproven", None)


@pytest.mark.skipif(shutil.which("ccache") is None, reason="needs ccache")
def test_a_hit_of_ccache_has_paid_and_one_for_another_cpu_is_no_hit(place: Workplace) -> None:
    def compiler(cpu: str) -> dict[str, str]:
        """gcc on a machine of this CPU; the file has the same time on both, as in one image."""
        folder = place.folder / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "gcc"
        script.write_text(
            '#!/bin/bash\na=(); for x; do [ "$x" = -march=native ] && '
            f'x=-march={cpu}; a+=("$x"); done; exec /usr/bin/gcc "${{a[@]}}"\n'
        )
        script.chmod(0o755)
        os.utime(script, ns=(SECOND, SECOND))
        return {"PATH": f"{folder}:{os.environ['PATH']}", "CCACHE_DIR": str(place.cache)}

    def job(name: str, environment: dict[str, str]) -> dict[str, Any]:
        words = ("--family", "ccache", *(("--store", str(place.store)) if name != "verify" else ()))
        words += ("--effect",) if name == "verify" else ("--python", sys.executable)
        facts: dict[str, Any] = place.facts(name, *words, environment=environment)["caches"][0]
        return facts

    def build(environment: dict[str, str]) -> None:
        command = ["ccache", "gcc", "-O3", "-march=native", "-c", "a.c", "-o", "a.o"]
        subprocess.run(command, cwd=place.folder, env={**os.environ, **environment}, check=True)

    (place.folder / "a.c").write_text("int f(int x) { return x * 3; }\n")
    here, elsewhere = compiler("x86-64-v2"), compiler("x86-64-v2")
    build(here)
    job("save", here)
    shutil.rmtree(place.cache)
    job("restore", here)
    build(here)

    hit = job("verify", here)
    shutil.rmtree(place.cache)
    other = job("restore", {**elsewhere, **compiler("x86-64")})

    assert (hit["effect"], hit["compiled"]) == ("paid", 0)
    assert other["result"] == "none"
    assert "compiler.native" in other["reason"]


def test_a_library_that_chose_another_directory_is_named(place: Workplace) -> None:
    place.compile_and_restore("a.so")
    other = place.folder / "elsewhere"
    place.cache = other
    place.compile("a.so", began=4_000_000_000)

    (effect,) = place.facts("verify", "--effect", "--family", f"mine={other}")["caches"]

    assert effect["effect"] == "inert"
    assert str(other) in effect["reason"]


def test_an_earlier_result_ends_if_a_file_of_it_is_gone(place: Workplace) -> None:
    place.compile_and_restore("a.so", "b.so")
    (place.cache / "b.so").unlink()

    again = place.transfer("restore")

    assert again["is_shared"] is False
    assert again["caches"][0]["files"] == 1


@pytest.mark.nightly
def test_what_was_there_before_the_restore_proves_nothing(place: Workplace) -> None:
    place.compile("a.so", "b.so")
    place.transfer("save")
    place.transfer("restore")
    read_by_name(place.cache, "a.so", "b.so")

    (effect,) = place.facts("verify", "--effect", *place.family)["caches"]

    assert (effect["effect"], effect["saved_s"]) == ("unproven", None)
    assert "before the restore" in effect["reason"]


def test_a_second_restore_of_one_job_keeps_the_proof_of_the_first(place: Workplace) -> None:
    place.compile_and_restore("a.so", "b.so")
    read_by_name(place.cache, "a.so", "b.so")
    shutil.rmtree(place.folder / "run" / "ci-doctor" / "leaders")
    place.transfer("restore")

    (effect,) = place.facts("verify", "--effect", *place.family)["caches"]

    assert (effect["effect"], effect["saved_s"]) == ("paid", 2.0)


@pytest.mark.nightly
def test_what_another_job_of_the_machine_has_read_proves_nothing(place: Workplace) -> None:
    one, other = ({"BUILDKITE_JOB_ID": name} for name in ("one", "other"))
    place.compile("a.so", "b.so")
    place.transfer("save")
    shutil.rmtree(place.cache)
    place.transfer("restore", environment=one)
    read_by_name(place.cache, "a.so", "b.so")
    assert place.transfer("restore", environment=other)["is_shared"] is True

    words = ("verify", "--effect", *place.family)
    (effect,) = place.facts(*words, environment=other)["caches"]
    (own,) = place.facts(*words, environment=one)["caches"]

    assert (effect["effect"], own["effect"]) == ("unproven", "paid")


def test_what_another_job_saves_is_found_after_a_restore_of_nothing(place: Workplace) -> None:
    assert place.transfer("restore")["caches"][0]["result"] == "none"
    place.compile("a.so")
    place.transfer("save")
    shutil.rmtree(place.cache)

    assert place.transfer("restore")["caches"][0]["result"] == "restored"


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 86)])
def test_nothing_to_restore_is_no_failure_unless_somebody_is_strict(
    place: Workplace, words: tuple[str, ...], code: int
) -> None:
    restored = place.transfer("restore", *words, code=code)
    saved = place.transfer("save", *words, code=code)

    assert [facts["caches"][0]["result"] for facts in (restored, saved)] == ["none", "absent"]
    assert saved["caches"][0]["reason"] == f"{place.cache} does not exist"


def test_an_empty_directory_is_named_and_is_not_saved_for_the_strict(place: Workplace) -> None:
    place.cache.mkdir(parents=True)

    saved = place.transfer("save", "--strict", code=86)

    assert saved["caches"][0]["reason"] == f"{place.cache} holds no file of the cache"


@pytest.mark.parametrize("store", ["/proc/ci-doctor-store", "file/store"])
def test_a_store_that_cannot_be_made_is_an_error_of_usage_for_the_strict(
    place: Workplace, tmp_path: Path, store: str
) -> None:
    place.compile("a.so")
    (tmp_path / "file").touch()

    ended = place.run("save", "--store", str(tmp_path / store), *place.family, "--strict")
    lenient = place.run("save", "--store", str(tmp_path / store), *place.family)

    assert (ended.code, lenient.code) == (2, 0), lenient
    for each in (ended, lenient):
        assert "cannot write" in each.err
        assert f"{os.sep}v1" not in each.err, "the directory, and not an object in it"


def test_a_damaged_store_is_refused_and_verify_names_the_object(place: Workplace) -> None:
    place.compile("a.so")
    place.transfer("save")
    shutil.rmtree(place.cache)
    (pack,) = place.store.rglob("*.pack")
    pack.write_bytes(b"\0" * pack.stat().st_size)

    facts = place.transfer("restore", "--strict", code=1)
    verified = place.transfer("verify", code=1)

    assert facts["caches"][0]["result"] == "refused"
    assert pack.name in verified["damaged"][0]
    assert not place.cache.exists()


def test_a_store_that_hangs_takes_no_longer_than_the_budget(place: Workplace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = ["restore", "--store", "s3://bucket/caches", "--budget", "1s", *place.family]
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
        }
        first = place.facts(*words, environment=environment)
        second = place.facts(*words, "--strict", code=75, environment=environment)

    assert first["failure"] == "timeout"
    assert (second["failure"], second["is_shared"]) == ("timeout", True)


def test_a_store_of_another_kind_or_an_unknown_family_is_an_error_of_usage(
    place: Workplace,
) -> None:
    place.compile("a.so")
    cases = {
        ("restore", "--store", "ftp://host/caches"): "ftp://",
        ("restore", "--store", "caches", "--family", "tritn"): "triton",
        ("save", "--store", "s3:/x", *place.family): "write s3://",
    }
    for words, named in cases.items():
        ended = place.run(*words)
        assert (ended.code, named in ended.err) == (2, True), ended.err
    assert not (place.folder / "s3:").exists(), "a mistyped URL makes no directory"


def test_explain_names_the_fact_in_which_the_nearest_cache_differs(place: Workplace) -> None:
    place.compile("a.so")
    place.transfer("save")
    saved_at = str(place.cache)
    place.cache = place.folder / "caches" / "moved"

    (explained,) = place.transfer("explain")["caches"]

    assert "would be inert" in explained["would"]
    different = {fact["name"]: fact["saved"] for fact in explained["facts"] if fact["differs"]}
    assert different == {"cache.root": saved_at}


def test_a_signed_cache_is_restored_by_who_knows_the_signer_alone(place: Workplace) -> None:
    key = place.folder / "key"
    line = place.facts("keygen", str(key))["allowed_signer"]
    signers = place.folder / "signers"
    signers.write_text(f"{line}\n")
    main = {
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "j",
        "BUILDKITE_BRANCH": "main",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        "BUILDKITE_PULL_REQUEST": "false",
    }
    request = {**main, "BUILDKITE_BRANCH": "fix", "BUILDKITE_PULL_REQUEST": "12"}
    place.compile("a.so")
    saved = place.transfer("save", "--key", str(key), environment=main)
    shutil.rmtree(place.cache)
    trust = ("--trust", "signed")

    stranger = place.transfer("restore", *trust, environment=request)
    known = place.transfer(
        "restore", *trust, "--allowed-signers", str(signers), environment=request
    )

    assert (saved["scope"], saved["is_signed"]) == ("signed", True)
    assert stranger["caches"][0]["result"] == "refused"
    assert known["caches"][0]["result"] == "restored"


def test_gc_keeps_the_newest(place: Workplace) -> None:
    for name in ("a.so", "b.so", "c.so"):
        place.compile(name)
        place.transfer("save")

    words = ["gc", "--store", str(place.store), "--keep", "2"]
    planned = place.facts(*words, "--dry-run")
    done = place.facts(*words)

    assert planned["manifests"] == done["manifests"]
    assert len(done["manifests"]) == 1
    assert len(list(place.store.rglob("*.json.zst"))) == 2
