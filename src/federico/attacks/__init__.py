"""Hostile members of a simulation: who they are, and what they send, serve and train on."""
