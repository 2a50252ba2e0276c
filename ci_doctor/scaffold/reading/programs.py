# SPDX-License-Identifier: Apache-2.0
"""Pure. Programs that stand before or around the command of a server, by what they do with it."""

from typing import Final

# What prepares the environment of a command and belongs to it: `uv run uvicorn …`.
RUNNERS: Final = frozenset(("uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi"))
# What starts a command elsewhere: in an image, on another machine.
ELSEWHERE: Final = frozenset(
    ("docker", "podman", "nerdctl", "kubectl", "ssh", "srun", "sbatch", "apptainer", "singularity")
)
# What runs the command behind it, and is left out.
WRAPPERS: Final = frozenset(
    (
        *("nohup", "exec", "sudo", "env", "time", "timeout", "numactl", "nsys", "stdbuf", "setsid"),
        *("taskset", "nice", "ionice", "coverage", "xvfb-run", "tini", "dumb-init", "screen"),
        *("tmux", "if", "then", "do", "else", "{", "!", "@"),
    )
)
# Commands whose arguments name a server and start none.
SPEAKERS: Final = frozenset(
    (
        *("pip", "pip3", "apt", "apt-get", "yum", "dnf", "conda", "mamba", "brew", "npm", "echo"),
        *("printf", "grep", "pgrep", "pkill", "killall", "kill", "which", "command", "type", "cp"),
        *("mv", "rm", "ln", "chmod", "chown", "mkdir", "cat", "tee", "sed", "awk", "curl", "wget"),
        *("git", "cargo", "make", "cmake", "test", "[", "[[", "man", "ls", "cd", "export", "alias"),
        *("set", "unset", "COPY", "ADD"),
    )
)
VERBS: Final = frozenset(("install", "add", "uninstall", "show", "remove", "list", "build"))
