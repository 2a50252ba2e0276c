# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor launch`: one command under a group of services. Pure."""
