"""Deterministic reconstruction: transitions in, rules, effects and measured predictions out; no model is asked."""
