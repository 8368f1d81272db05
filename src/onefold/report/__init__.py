"""A report on a fitted model: facts gathered once, rendered as text, JSON and one HTML page.

`gather` collects plain values, most of them from :mod:`onefold.facts`; `write_report` writes them as one
page; :meth:`Report.text` and :meth:`Report.as_dict` are the same for terminals and programs.
"""

from onefold.report.gather import gather, write_report
from onefold.report.report import Report

__all__ = ["Report", "gather", "write_report"]
