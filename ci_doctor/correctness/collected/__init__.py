# SPDX-License-Identifier: Apache-2.0
"""Samples that another program collected: read in whatever format they have, and compared. Pure."""
