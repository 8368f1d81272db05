"""A report on a fitted model: facts gathered once, rendered as text, JSON and one HTML page.

Plain values, most of them from :mod:`onefold.facts`; :meth:`Report.text`, :meth:`Report.as_dict` and
:meth:`Report.html` are the same for terminals, programs and browsers.
"""

from onefold.report.gather import write_report
from onefold.report.report import Report

__all__ = ["Report", "write_report"]
