"""The program whose tests are flaky."""
