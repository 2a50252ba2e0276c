# SPDX-License-Identifier: Apache-2.0
"""Sessions with commands that are allowed to fail."""

import nox


@nox.session
def tests(session: nox.Session) -> None:
    session.install("iniconfig")
    session.run("python", "-c", "raise SystemExit('Error: expected')", success_codes=[1])
    session.run("python", "-c", "import no_such_module", success_codes=[1])


@nox.session
def gpu(session: nox.Session) -> None:
    session.skip("CUDA error: no device")
