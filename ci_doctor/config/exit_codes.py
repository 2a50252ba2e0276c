# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[exit-codes]` section: a repository's own exit codes for the verdicts."""

from msgspec import Struct
from msgspec.structs import asdict

from ci_doctor.config.decoding import DEFAULT, Environ, Origins, decode_section
from ci_doctor.config.loading import Config
from ci_doctor.errors import ConfigError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.verdict import EXIT_CODES, Verdict

# What a pipeline does with these two would be wrong for a verdict that must stop it.
_NOT_FAILURES = (("infra", "is retried"), ("nondeterministic", "passes as a soft fail"))
_FAILURES = ("regression", "failed")


class ExitCodes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exit code of each verdict that has one; `flaky` only if it fails the command."""

    regression: int = EXIT_CODES[Verdict.REGRESSION].value
    failed: int = EXIT_CODES[Verdict.FAILED].value
    flaky: int = EXIT_CODES[Verdict.FLAKY].value
    nondeterministic: int = EXIT_CODES[Verdict.NONDETERMINISTIC].value
    infra: int = EXIT_CODES[Verdict.INFRA].value
    inconclusive: int = EXIT_CODES[Verdict.INCONCLUSIVE].value
    void: int = EXIT_CODES[Verdict.VOID].value


def read_exit_codes(config: Config, environ: Environ) -> tuple[dict[str, int], Origins]:
    """The codes by verdict, and the origin of each.

    Raises ConfigError for a code that no verdict can have, and for one that a failure shares with
    a verdict which a pipeline does not fail for.
    """
    settings, origins = decode_section(config, "exit-codes", ExitCodes, environ=environ, flags={})
    codes: dict[str, int] = asdict(settings)
    for name, code in codes.items():
        origin = origins[name]
        if origin != DEFAULT and not _can_serve(code):
            raise ConfigError(
                f"{origin}: {name} = {code} cannot be an exit code of a verdict",
                hint="use 1 to 124 or 255, but not 2 (usage) or 70 (a bug); "
                "125 to 254 belong to the agent and the shell",
            )
    for name, fate in _NOT_FAILURES:
        code = codes[name]
        for failure in _FAILURES:
            if code == codes[failure]:
                raise _shared(name, failure, fate, code, origins)
    return codes, origins


def _shared(name: str, failure: str, fate: str, code: int, origins: Origins) -> ConfigError:
    """The error for one code of two verdicts which a pipeline must tell apart."""
    # One of the two is not a default, for our own codes differ.
    place = origins[name]
    if place == DEFAULT:
        place = origins[failure]
    return ConfigError(
        f"{place}: {name} and {failure} share the code {code}",
        hint=f"a pipeline distinguishes them by their codes: {name} {fate}, {failure} never does",
    )


def _can_serve(code: int) -> bool:
    """Whether a verdict may have this code: no other meaning is known to the agent or a shell."""
    if code in {ExitCode.USAGE, ExitCode.BUG}:
        return False
    # What a command may end with by itself; 255 is what `exit -1` becomes.
    if code == 255:
        return True
    return 1 <= code <= 124
