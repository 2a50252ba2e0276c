# SPDX-License-Identifier: Apache-2.0
"""HOW STOP COMMAND...: runs COMMAND below a guardian, on our own stdout, and says both pids; then, by HOW:

`waits` for a line on stdin, and says how COMMAND ended; `exits` after that line, without closing the guardian;
`stays` in the foreground with COMMAND, as on a terminal, and says how it ended. STOP is a shell command for when we are gone.
"""

import json
import os
import sys
from pathlib import Path

from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.tree import OwnTree

how, stop, *command = sys.argv[1:]
guardian = Guardian.start()
tree = OwnTree(guardian)
child = guardian.spawn(
    command,
    environment=os.environ,
    directory=Path(),
    output=1,
    foreground=how == "stays",
    stop_words=["sh", "-c", stop] if stop else None,
)
sys.stdout.write(json.dumps({"guardian": guardian.pid, "child": child.pid}) + "\n")
sys.stdout.flush()
while how == "stays":
    try:
        sys.stdout.write(f"ended {child.wait()}\n")
        sys.stdout.flush()
        break
    except KeyboardInterrupt:
        sys.stdout.write("interrupted\n")
sys.stdin.readline()
if how == "exits":
    os._exit(0)
sys.stdout.write(f"ended {child.wait()}\n")
tree.kill(5)
guardian.close()
