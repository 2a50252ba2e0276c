# SPDX-License-Identifier: Apache-2.0
"""Pure. The RUN lines of a Dockerfile as a shell script: python tests/support/run_lines.py FILE [STAGE]."""

import re
import sys
from pathlib import Path


def stages(text: str) -> list[list[tuple[str, str]]]:
    """The instructions of each stage, continued lines joined, as name and rest."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text))
    found: list[list[tuple[str, str]]] = []
    for line in joined.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        if name and found:
            found[-1].append((name, rest.strip()))
    return found


def script(instructions: list[tuple[str, str]]) -> str:
    """What RUN and WORKDIR of a stage do, for sh; mounts are left to the caller."""
    lines = ["set -eu"]
    for name, rest in instructions:
        if name == "WORKDIR":
            lines.append(f"mkdir -p {rest} && cd {rest}")
        elif name == "RUN":
            lines.append(re.sub(r"--mount=\S+\s+", "", rest))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    every = stages(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(script(every[int(sys.argv[2])]), end="")
