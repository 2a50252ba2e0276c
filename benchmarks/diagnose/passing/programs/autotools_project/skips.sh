# SPDX-License-Identifier: Apache-2.0
echo "skipped: no GPU, cudaGetDeviceCount failed"
exit 77
