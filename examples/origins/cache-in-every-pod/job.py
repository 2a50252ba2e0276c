# SPDX-License-Identifier: Apache-2.0
"""The job of one pod: imports many modules. Python compiles them into the directory that PYTHONPYCACHEPREFIX names."""

import importlib
import sys

MODULES = ("email.mime.text", "http.server", "xml.dom.minidom")

for name in MODULES:
    importlib.import_module(name)
sys.stdout.write(f"job done, {len(sys.modules)} modules\n")
