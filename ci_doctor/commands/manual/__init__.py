# SPDX-License-Identifier: Apache-2.0
"""The documentation of every command as data, and as reference pages."""
