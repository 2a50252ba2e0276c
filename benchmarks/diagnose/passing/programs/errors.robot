*** Comments ***
SPDX-License-Identifier: Apache-2.0

*** Settings ***
Library    Process

*** Test Cases ***
Error Is Expected
    Run Keyword And Expect Error    *division by zero*    Evaluate    1 / 0

Failure Is Ignored
    Run Keyword And Ignore Error    Fail    connection refused
    Run Keyword And Warn On Failure    Should Be Equal    1    2

Command Fails As Expected
    ${result} =    Run Process    cat    /no/such/file
    Log    ${result.stderr}    level=ERROR
    Should Be Equal As Integers    ${result.rc}    1

Skipped Without GPU
    Skip    CUDA error: no device
