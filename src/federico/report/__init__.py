"""Reads results and runs, finished or not, and nothing else: tables, sentences and figures."""

from federico.report.details import summarize
from federico.report.writing import draw_kept, write_tables_and_pictures

__all__ = ["draw_kept", "summarize", "write_tables_and_pictures"]
