# SPDX-License-Identifier: Apache-2.0
"""CODE [TEXT]: says TEXT and ends with CODE, or by the signal -CODE."""

import os
import sys

code = int(sys.argv[1])
sys.stdout.write(" ".join(sys.argv[2:]) + "\n")
sys.stdout.flush()
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
