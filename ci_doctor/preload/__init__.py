# SPDX-License-Identifier: Apache-2.0
"""Pure. Prepare: import-preload shims in other interpreters."""
