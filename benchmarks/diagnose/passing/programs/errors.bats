# SPDX-License-Identifier: Apache-2.0
@test "a missing command fails with 127" {
  run no_such_command
  echo "$output"
  [ "$status" -eq 127 ]
}

@test "error of cat is printed" {
  run cat /no/such/file
  echo "$output"
  [ "$status" -eq 1 ]
}

@test "fails without a GPU" {
  skip "nvidia-smi: command not found"
}
