"""Decentralised, personalised federated learning with the right collaborators."""
