# SPDX-License-Identifier: Apache-2.0
"""The servers that `init` recognises: how their commands look, and what they answer."""
