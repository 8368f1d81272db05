"""Text for people: the progress of a search, its result, and commands to copy."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from onefold.cli.output import MODEL_NAME, REPORT_NAME, SEARCH_NAME
from onefold.facts.criteria import score_words
from onefold.facts.scores import belief_words, both_scores, comparison_words, score_lines
from onefold.facts.summary import fit_facts, group_words, importance_lines, next_best
from onefold.facts.unwrap import unwrap
from onefold.facts.words import aligned, counted
from onefold.machine.speed import duration_words
from onefold.search.loop import progress_words
from onefold.tables import TableModel

_PURPOSE = {
    MODEL_NAME: "the model",
    SEARCH_NAME: "the scores of every {}",
    REPORT_NAME: "a report on the model and its rows",
}
# Characters of the progress bar.
_BAR = 20
# Seconds that the report and the files take after a fit, as a rule; benchmarks/announced.py measures it.
_REPORT_SECONDS = 1.0
# Seconds between two lines of progress where standard error is not a terminal.
_LOG_EVERY_SECONDS = 10.0


class Progress:
    """The ``callback`` of a search: one bar for the whole run, lines in a log, or nothing.

    The bar shows the share of the time that has passed, and never goes back: where the rest turns out to
    take longer than it seemed, the bar waits.
    """

    def __init__(self, stream: TextIO | None, criterion: str | None = None) -> None:
        self._stream = stream
        self.criterion = criterion
        self._terminal = stream is not None and stream.isatty()
        self._last_line_time = time.monotonic()
        self._drawn_width = 0
        self._share = 0.0
        self._seconds = 0.0  # of the last event

    def __call__(self, event: Mapping[str, Any]) -> None:
        """An evaluation has ended, or an iteration within one."""
        score = event["best_score"]
        params = event.get("best_params") or {}
        best = ""
        if score is not None:
            # Rounds on some of the rows are scored by squared error, whatever the criterion.
            is_round = "round" in params and event["part"] != "all rows"
            best = f", best so far {group_words(params) if is_round else self._score_words(score)}"
        self._show(event, f"{progress_words(event)}{best}")

    def begin_part(self, event: Mapping[str, Any]) -> None:
        """A step without evaluations begins."""
        self._show(event, str(event["part"]))

    def begin_report(self) -> None:
        """The model is there, and the report follows."""
        self._show({"seconds": self._seconds, "left": 0.0}, "report")

    def say_interrupted(self) -> None:
        """Ctrl-C has ended the search: its handler has said so."""

    def _show(self, event: Mapping[str, Any], words: str) -> None:
        """Draw the bar, or write a line to a log some seconds after the last one."""
        if self._stream is None:
            return
        self._seconds = float(event["seconds"])
        left = float(event["left"]) + _REPORT_SECONDS
        self._share = max(self._share, self._seconds / (self._seconds + left))
        text = f"{duration_words(left)} left, {words}"
        if self._terminal:
            bar = f"[{'█' * int(_BAR * self._share):·<{_BAR}}] {100 * self._share:.0f} %, "
            try:
                columns = os.get_terminal_size(self._stream.fileno()).columns
            except (OSError, ValueError):  # a terminal without a size
                columns = shutil.get_terminal_size().columns
            # Short of the last column, which makes some terminals wrap.
            self._draw(f"{bar}{text}" if len(bar + text) < columns else f"{bar}{text}"[: columns - 1])
        elif time.monotonic() - self._last_line_time >= _LOG_EVERY_SECONDS:
            self._last_line_time = time.monotonic()
            print(f"onefold: {text}", file=self._stream, flush=True)

    def _score_words(self, score: float) -> str:
        return f"{score:.6g}" if self.criterion is None else score_words(self.criterion, score)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn_width:
            self._draw("")

    def _draw(self, text: str) -> None:
        """Overwrite the last line; an empty text leaves the cursor at the first column."""
        print(
            "\r" + text.ljust(self._drawn_width), end="" if text else "\r", file=self._stream, flush=True
        )
        self._drawn_width = len(text)


def result_text(model: TableModel, files: list[str]) -> str:
    """The result of ``onefold tune`` for people."""
    lines = [*fit_text(model, fit_facts_of(model)["lines"]), "", "Wrote"]
    lines += aligned([(path, _PURPOSE[Path(path).name].format(_candidates(model))) for path in files])
    return "\n".join([*lines, f"Predict with: {command_line('predict', *files[:1])} NEW_TABLE"])


def fit_facts_of(model: Any) -> dict[str, Any]:
    """The facts of the fit of an estimator or a table model, which has its scores and its time."""
    report = getattr(model, "report_", None) or {}
    return fit_facts(
        unwrap(model).estimator,
        seconds=report.get("seconds"),
        scores=report.get("scores"),
        log_scale=bool(report.get("target_transform")),
        clip=report.get("clip"),
    )


def fit_text(model: Any, fit_lines: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of text in which ``onefold tune`` and ``onefold inspect`` show a fit."""
    if not isinstance(model, TableModel):
        return aligned(fit_lines)
    report = model.report_
    lines = [_how_chosen(report, model.target_, _candidates(model)), *aligned(fit_lines)]
    if report["scores"] is not None:
        lines.append("  (± is one standard error; choosing the best makes scores slightly optimistic)")
    second = report.get("second")  # which files of 1.0.0rc1 do not have
    if report["scores"] is not None and second is not None:
        lines += ["", "Scores for two uses", *aligned(both_scores(report["scores"], second))]
        belief = belief_words(second)
        lines += [f"  ({belief[:1].upper()}{belief[1:]}.)", ""]
    lines += [f"  note: {note}" for note in report["notes"]]
    test = report["test"]
    if test is not None:
        rows = counted(test["rows"], "test row")
        words = comparison_words(test["scores"], "")
        lines += ["", f"On {rows}, not used for tuning (scores of the saved model)"]
        lines += aligned([*score_lines(test["scores"]), ("best simple model", words)])
    important = importance_lines(report["importances"])
    if important:
        lines += ["", "Most important columns", *aligned(important)]
    unit = " (scores on the log scale)" if report.get("target_transform") else ""
    return [*lines, "", f"Next best{unit}", *next_best(model.estimator_)]


def _candidates(model: TableModel) -> str:
    """The noun for the candidates of a search: finalists if metrics were first tried on fewer rows."""
    history = getattr(model.estimator_, "metric_history_", None) or ()
    return "finalist" if len({event["rows"] for event in history}) > 1 else "candidate"


def _how_chosen(report: dict[str, Any], target: str | None, noun: str) -> str:
    """The number of candidates, and the rows that their scores are from."""
    scores = report["scores"]
    cv = report["cv"]
    kind = report.get("splits", {}).get("kind")  # which files of 1.0.0rc1 do not have
    is_adjective = kind in ("folds", "leave-one-out")
    splits = f"{cv} cross-validation" if is_adjective else f"cross-validation ({cv})"
    best = f"Best of {counted(report['candidates'], noun)} for '{target}'"
    if scores is None:
        return f"{best} by the criterion {report['criterion']}"
    if scores["untested"] and report["search"]["metric"] != "none":
        # The metrics were learned from the other folds.
        folds = f"{counted(scores['folds'], 'fold')} ({scores['rows']:,} rows)"
        return f"{best}, scored on {folds} of {splits}"
    return f"{best} by {splits}"


def command_line(*arguments: str) -> str:
    """A command to copy: ``onefold`` if the shell finds this program by that name, else its path."""
    started = Path(sys.argv[0])
    program = ["onefold"]  # also where it was called from Python
    if started.name == "__main__.py":
        program = [sys.executable, "-m", "onefold"]
    elif started.stem == "onefold" and os.path.abspath(started) != shutil.which("onefold"):
        program = [str(started)]
    # A path that looks like an option is written relative to this folder.
    words = [f"./{argument}" if argument.startswith("-") else argument for argument in arguments]
    return shlex.join([*program, *words])


def repeated(arguments: argparse.Namespace) -> str:
    """The command line with file names instead of paths, because a page may be passed on."""
    paths = {dest: value for dest, value in vars(arguments).items() if isinstance(value, Path)}
    names = {str(path): _name(path) for path in paths.values()}
    options = {option for dest in paths for option in arguments.options[dest]}
    words = ["onefold"]
    for word in arguments.argv:
        option, equals, value = word.partition("=")
        if equals and option in options:
            words.append(f"{option}={_name(Path(value))}")
        elif words[-1] in options:
            words.append(_name(Path(word)))
        else:
            words.append(names.get(str(Path(word)), word))
    return shlex.join(words)


def _name(path: Path) -> str:
    return path.name or str(path)
