"""The addresses of a name."""

from ci_doctor.checks.network.name_lookup import look_up_name


def test_an_address_is_its_own_address() -> None:
    assert look_up_name("127.0.0.1").addresses == ("127.0.0.1",)


def test_a_name_that_cannot_be_one_has_a_reason() -> None:
    assert look_up_name(f"{'a' * 64}.example").error
