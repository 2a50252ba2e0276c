# SPDX-License-Identifier: Apache-2.0
"""Pure. Build backends: how each is recognised, and where it takes a version from."""
