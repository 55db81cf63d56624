"""One site of a real federation: its identity, its files, its peer."""
