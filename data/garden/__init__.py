"""Texts, fields and faults of the example packages: work at an invented botanical garden."""
