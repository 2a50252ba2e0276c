# SPDX-License-Identifier: Apache-2.0
echo "error: this test is expected to fail"
exit 1
