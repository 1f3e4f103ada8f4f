"""A fuzzer of everything that reads: mutations, harness, campaign; seeds of our own in `corpus`, what once broke in `crashers`."""
