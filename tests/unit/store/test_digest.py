import io

from ci_doctor.store.transfer import RunningDigest, digest, digest_of_file

# Of the reference implementation's test vectors: no input, and 1,025 bytes of 0 to 250 over and over.
EMPTY = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
VECTOR = bytes(number % 251 for number in range(1025))
OF_VECTOR = "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"


def test_a_digest_is_blake3_in_hex() -> None:
    assert digest(b"") == EMPTY
    assert digest(VECTOR) == OF_VECTOR


def test_parts_and_a_file_have_the_digest_of_the_whole() -> None:
    running = RunningDigest()
    running.update(VECTOR[:1000])
    running.update(memoryview(VECTOR)[1000:])

    assert running.hexdigest() == OF_VECTOR
    assert digest_of_file(io.BytesIO(VECTOR)) == OF_VECTOR
