# SPDX-License-Identifier: Apache-2.0
Feature: errors

  Scenario: a refused connection is reported
    When the client connects to a dead port
    Then it sees the error "Connection refused"

  @wip
  Scenario: fails, not written yet
    Then it sees the error "Assertion Failed"
