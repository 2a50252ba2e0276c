# SPDX-License-Identifier: Apache-2.0
package require tcltest
namespace import ::tcltest::*

test error-1.0 {an unknown command is an error} -body {
    no_such_command
} -returnCodes error -result {invalid command name "no_such_command"}

test error-1.1 {the stack of an error is printed} -body {
    catch {expr {1 / 0}} message
    puts "while executing: $::errorInfo"
    set message
} -result {divide by zero}

test error-1.2 {fails without a GPU} -constraints hasGPU -body {error never}

test error-1.3 {connection refused} -body {
    socket 127.0.0.1 1
} -returnCodes error -match glob -result {couldn't open socket: *}

configure {*}$argv
cleanupTests
