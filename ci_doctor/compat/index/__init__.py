# SPDX-License-Identifier: Apache-2.0
"""Published versions of packages: the index that pip is configured with, and wheels read by ranges."""
