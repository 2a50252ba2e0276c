# SPDX-License-Identifier: Apache-2.0
"""Programs that run in other interpreters, CPython 3.8 and later; nothing here is imported by ci-doctor."""
