# SPDX-License-Identifier: Apache-2.0
"""The facts that decide whether what was made elsewhere may be used here, read from the machine."""
