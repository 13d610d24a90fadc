"""Posteriors of the value: conjugate, model-based, bootstrap, last layer; and the best ranking."""
