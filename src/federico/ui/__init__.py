"""The page that shows who learns with whom: served while runs go on, or frozen into one file."""
