"""Estimates from saddle points of a ratio and a Q: DualDICE, the Lagrangian family, CoinDICE."""
