"""Fingerprints of the library's numbers: ``python -m benchmarks.fingerprints write|compare FILE``.

Many small fits, selections, diagnoses and estimates with fixed keys, each boiled down to a few
numbers. Written before a change and compared after it, they show whether the change moved anything
that a user can see. Worlds are tiny; words are left out, for messages may change where numbers may
not.
"""
