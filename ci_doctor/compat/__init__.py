# SPDX-License-Identifier: Apache-2.0
"""Whether one package still calls another one correctly, read from the source of both."""
