# SPDX-License-Identifier: Apache-2.0
"""From places in the caller to breaks: calls are bound, names looked up, overrides compared."""
