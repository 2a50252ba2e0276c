# SPDX-License-Identifier: Apache-2.0
"""What a person is told of an experiment: where answers part, suspects, the picture, findings."""
