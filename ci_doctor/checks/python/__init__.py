# SPDX-License-Identifier: Apache-2.0
"""The interpreters and what is installed in them."""
