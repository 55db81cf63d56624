"""Reads results and runs, finished or not, and nothing else: tables, figures, one HTML page."""

from federico.report.details import summarize
from federico.report.writing import draw_kept, write_report

__all__ = ["draw_kept", "summarize", "write_report"]
