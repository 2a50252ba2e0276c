import msgspec
import pytest
import zstandard

from ci_doctor.store.manifest import IdentityTier, compress, decode, decompress, encode
from ci_doctor.store.objects import DamagedError, LimitError, StoreLimits
from tests.unit.store.test_check_manifest import MANIFEST


def test_a_manifest_comes_back_as_it_was() -> None:
    assert decode(encode(MANIFEST), StoreLimits()) == MANIFEST


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", compress(b"{}"), compress(b"[" * 1000), encode(MANIFEST)[:-1], b"\0" * 100],
)
def test_what_is_no_manifest_is_damaged(content: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(content, StoreLimits())


@pytest.mark.parametrize(("schema", "hint"), [(1, "save the cache again"), (3, "a newer one")])
def test_another_schema_is_refused_by_name(schema: int, hint: str) -> None:
    other = msgspec.structs.replace(MANIFEST, schema=schema)

    with pytest.raises(DamagedError, match=f"schema {schema}") as raised:
        decode(encode(other), StoreLimits())

    assert hint in str(raised.value.hint)


def test_lists_are_counted_before_they_are_made() -> None:
    with pytest.raises(LimitError, match="too many entries"):
        decode(compress(b"[" + b"[0,0,0]," * 3000 + b"0]"), StoreLimits(files=10))


def test_facts_are_counted_before_they_are_made() -> None:
    facts = {str(number): "" for number in range(40_000)}
    many = msgspec.structs.replace(MANIFEST, hard=IdentityTier(facts=facts))

    with pytest.raises(LimitError, match="too many entries"):
        decode(encode(many), StoreLimits(files=10))


def test_a_frame_that_declares_too_much_is_not_decompressed() -> None:
    with pytest.raises(LimitError, match="declares 1000 bytes"):
        decompress(compress(bytes(1000)), 999)


def test_a_frame_that_holds_more_than_it_declares_is_damaged() -> None:
    frame = bytearray(compress(bytes(range(200))))
    assert zstandard.frame_content_size(bytes(frame)) == 200
    frame[frame.index(200)] = 100  # the declared size

    with pytest.raises(DamagedError):
        decompress(bytes(frame), 1000)


def test_a_frame_that_declares_no_size_or_has_a_tail_is_damaged() -> None:
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 10)

    with pytest.raises(DamagedError):
        decompress(silent, 1000)
    with pytest.raises(DamagedError):
        decompress(compress(b"x" * 10) + b"tail", 1000)


def test_an_unknown_fact_is_part_of_a_tier_and_no_value() -> None:
    unknown = IdentityTier(facts={}, unknown=("driver",))

    assert unknown.digest() != IdentityTier(facts={"driver": ""}).digest()
    assert unknown.digest() != IdentityTier(facts={}).digest()
    assert IdentityTier(facts={"a": "1", "b": "2"}).digest() == (
        IdentityTier(facts={"b": "2", "a": "1"}).digest()
    )
