"""A report on a fitted model: facts gathered once, rendered as text, JSON and one HTML page.

`gather` collects plain values: the question, the answer in three sentences, held-out scores with
uncertainty beside simple models on the same splits, what ran and why, importances, where the model is
worst, the trust verdict, what the rows are like, the environment, the way here again. `write_report`
writes them as a page that needs no network; :meth:`Report.text` and :meth:`Report.as_dict` are the same
facts for terminals and programs.
"""

from onefold.report.gather import gather
from onefold.report.report import Report
from onefold.report.writing import write_report

__all__ = ["Report", "gather", "write_report"]
