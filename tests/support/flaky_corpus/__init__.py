"""Small programs with a flaky test each, of every kind, and what is wrong with them."""
