# SPDX-License-Identifier: Apache-2.0
"""Rules of pipelines in YAML, and the shell scripts that stand in them."""
