# SPDX-License-Identifier: Apache-2.0
"""What a name or an expression stands for, as far as the source is certain about it."""
