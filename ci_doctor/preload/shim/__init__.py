# SPDX-License-Identifier: Apache-2.0
"""Files that are installed into other interpreters, CPython 3.8 and later; nothing here is imported by ci-doctor."""
