"""Estimates from the action value: the Bellman equation, LSTDQ, fitted Q evaluation."""
