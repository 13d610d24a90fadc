"""Estimates from weighted rewards: importance sampling, doubly robust, stationary ratios."""
