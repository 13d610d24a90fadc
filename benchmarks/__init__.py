"""Measurements of the library: are its beliefs calibrated, and is it fast enough.

Each module fills one table in `benchmarks/results`; ``python -m benchmarks`` redoes them all.
"""
