"""Reads a run directory, finished or not, and nothing else: tables, figures, one HTML page."""

from federico.report.old.written import Summary, as_json, result_table, summarize, write_report

__all__ = ["Summary", "as_json", "result_table", "summarize", "write_report"]
