# SPDX-License-Identifier: Apache-2.0
"""The job: imports many modules, which Python compiles into the cache that PYTHONPYCACHEPREFIX names."""

import importlib
import sys

MODULES = ("asyncio", "email.mime.text", "http.server", "unittest.mock", "xml.dom.minidom", "pydoc")

for name in MODULES:
    importlib.import_module(name)
sys.stdout.write(f"imported {len(sys.modules)} modules\n")
