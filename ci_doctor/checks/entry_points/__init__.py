# SPDX-License-Identifier: Apache-2.0
"""Entry points that are started in a process of their own, on request."""
