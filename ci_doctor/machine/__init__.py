# SPDX-License-Identifier: Apache-2.0
"""What a machine is: readers without findings, each the only one of its subject (docs/design.md)."""
