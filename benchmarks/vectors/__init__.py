"""Vectors: worlds of vector observations with known values, and the score of any fit on them.

The worlds and their candidates were fixed before any fit was tried on them. A fit is scored by how
often its intervals hold the true values, and by whether it abstains where it is wrong.
"""
