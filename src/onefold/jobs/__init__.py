"""The main job as Python functions: a table in; a fitted model with its preparation and a report out.

`tune_table` does all of it. The command line, which shows progress and writes files on the way, takes
the same steps: `prepared` reads and checks the table, `run_job` searches, fits and reports.
"""

from onefold.jobs.job import Job, prepare_job
from onefold.jobs.running import prepared, run_job, tune_table
from onefold.jobs.settings import Settings

__all__ = ["Job", "Settings", "prepare_job", "prepared", "run_job", "tune_table"]
