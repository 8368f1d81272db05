"""What the command line accepts: tables of options, and which of them each command has.

Options for columns, the search, tests and time are parameters of :func:`onefold.tuning.tuning` or of
`TableClassifier` and `TableRegressor`, of the same name (``--class-weight`` is `class_weight`) or of the
one in ``dest``, and have their defaults. A new option is a line here.
"""

from __future__ import annotations

import argparse
import glob
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from onefold._version import __version__

if TYPE_CHECKING:
    from onefold.tables import Reading, TableSource

Specs = dict[str, dict[str, Any]]
_LISTS = ("--drop", "--categorical", "--numeric", "--groups")  # options that take several names


def _parser_of(
    expected: str, parse: Callable[[str], Any], accepts: Callable[[Any], bool] = lambda value: True
) -> Callable[[str], Any]:
    """A parser that refuses values other than the `expected` ones (``"a positive whole number"``)."""

    def checked(text: str) -> Any:
        try:
            value = parse(text.strip())
            refused = not accepts(value)
        except (ArithmeticError, TypeError, ValueError):
            refused = True
        if refused:
            raise argparse.ArgumentTypeError(f"'{text}' is not {expected}")
        return value

    return checked


def _grid(text: str) -> list[float]:
    import numpy as np

    def number(text: str) -> float:
        base, power, exponent = text.partition("^")
        return float(float(base) ** float(exponent)) if power else float(base)

    values: list[float] = []
    for part in text.split(","):
        first, *more = part.split(":")
        if more:
            last, count = more
            values.extend(np.geomspace(number(first), number(last), positive(count)).tolist())
        else:
            values.append(number(first))
    return values


def _seconds(text: str) -> float:
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:])
    return float(text) if unit is None else unit * float(text[:-1])


grid = _parser_of(
    "a grid of positive numbers, such as 0.1,1,10 or 2^-15:2^9:13 (first:last:count)",
    _grid,
    lambda values: all(0 < value < math.inf for value in values),
)
duration = _parser_of(
    "a duration, such as 90 (seconds), 90s, 5m or 2h", _seconds, lambda value: 0 < value < math.inf
)
positive = _parser_of("a positive whole number", int, lambda value: value >= 1)
share = _parser_of("a fraction between 0 and 1, such as 0.2", float, lambda value: 0 < value < 1)
tolerance = _parser_of("a positive number, such as 0.05", float, lambda value: 0 < value < math.inf)
coverage = _parser_of("a fraction between 0 and 1, such as 0.9", float, lambda value: 0 < value < 1)
frequency = _parser_of(
    "a number of rows or a fraction of them", lambda text: int(text) if text.isdigit() else float(text)
)


def _folds(text: str) -> str | int:
    from onefold.heldout import past_splits  # imports NumPy, which --help does without

    return text if text == "loo" or past_splits(text) is not None else int(text)


folds = _parser_of("a number of folds, 'loo' or 'past:5'", _folds)


def _yes_or_auto(text: str) -> bool | str:
    if text not in ("yes", "auto"):
        raise argparse.ArgumentTypeError(f"'{text}' is not auto; leave it out, or use auto")
    return "auto" if text == "auto" else True


def _or_none(text: str) -> str | None:
    return None if text == "none" else text


def _bounds(text: str) -> str | tuple[float | None, float | None] | None:
    if text in ("auto", "none"):
        return _or_none(text)
    low, high = (float(bound) if bound else None for bound in text.split(":"))
    return low, high


clip = _parser_of(
    "auto, none or a range LOW:HIGH, of which one may be empty, such as 0:100 or 0:",
    _bounds,
    lambda value: not isinstance(value, tuple) or _is_range(*value),
)


def _is_range(low: float | None, high: float | None) -> bool:
    if low is None and high is None:
        return False
    return (-math.inf if low is None else low) < (math.inf if high is None else high)


def path(text: str) -> Path:
    """A path; an empty one, such as an unset variable of the shell, is not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; use . for the current directory")
    if text == "-":
        raise argparse.ArgumentTypeError(
            "standard input is not supported; write the table to a file first"
        )
    return Path(text)


def _option(purpose: str, metavar: str | None = None, parse: Any = None, **more: Any) -> dict[str, Any]:
    spec = {"help": purpose, "metavar": metavar, "type": parse}
    return {name: value for name, value in spec.items() if value is not None} | more


def _flag(purpose: str) -> dict[str, Any]:
    return _option(purpose, action="store_true")


def _columns(purpose: str) -> dict[str, Any]:
    return _option(purpose, "COL", nargs="+", action="extend")


_TABLES = (
    "table in .csv, .tsv (also .gz), .parquet, .xlsx, .xls or .ods format; 'DIR/*.parquet' or a folder "
    "of Parquet files is read as one table"
)
_TABLE: Specs = {"table": _option(_TABLES, "TABLE", path)}
_MODEL: Specs = {"model": _option("model.onefold, or the directory that tune wrote", "MODEL", path)}
_TARGET: Specs = {
    "--target": _option("column to predict (required)", "COL"),
    "--task": _option("kind of target (default: inferred)", choices=["classification", "regression"]),
}
_COLUMNS: Specs = {
    "--drop": _columns("columns to leave out"),
    "--categorical": _columns("columns to treat as categories, even if they hold numbers or dates"),
    "--numeric": _columns(
        "columns to treat as numbers, not as codes (default: tried on held-out rows of a sample)"
    ),
    "--id": _option("ID column, copied to the predictions", "COL", dest="id_column"),
    "--weight": _option("column of sample weights", "COL"),
    "--groups": _columns(
        "column of groups: rows with the same value stay in the same fold; several columns: rows that "
        "agree in all of them; auto: groups that are noticed"
    ),
    "--missing": _option(
        "impute missing values (default), or stop with an error", choices=["impute", "error"]
    ),
    "--min-frequency": _option(
        "merge categories that occur in fewer than N rows (10) or in a smaller fraction of them (0.01)",
        "N|FRACTION",
        frequency,
    ),
    "--drop-missing-target": _flag("drop rows without a target instead of stopping with an error"),
    "--target-transform": _option("fit the logarithm of a positive target", choices=["log"]),
    "--clip": _option(
        "keep predictions of numbers within LOW:HIGH (0:100, 0: or --clip=-5:5), within the range that "
        "is noticed in the target (auto, default), or nowhere (none)",
        "LOW:HIGH|auto|none",
        clip,
    ),
}
_SEARCH: Specs = {
    "--simple": _flag("search gamma and alpha of one kernel (default: rbf), without metric or blend"),
    "--kernel": _option(
        "kernels to compare: one or more of rbf, powexp, laplacian, matern12, matern32, matern52, "
        "polynomial, linear; or auto (default): rbf, powexp and laplacian",
        "NAME[,NAME…]",
        lambda text: [name.strip() for name in text.split(",")] if "," in text else text,
    ),
    "--metric": _option(
        "metric to learn: diagonal (a weight per feature), full (features mixed), none or auto "
        "(default)",
        choices=["none", "diagonal", "full", "auto"],
    ),
    "--blend": _option(
        "blend the best models (default), or keep one", action=argparse.BooleanOptionalAction
    ),
    "--cv": _option(
        "number of folds (default: 5), loo for leave-one-out, or past:N for N blocks of rows, each "
        "predicted from earlier rows only",
        "N|loo|past:N",
        folds,
    ),
    "--ordered": _option(
        "use blocks of consecutive rows as folds (time series); each is predicted from all others; "
        "auto: only where the rows are noticed to come in time, in the order of that column",
        "auto",
        _yes_or_auto,
        nargs="?",
        const=True,
    ),
    "--gap": _option(
        "with --ordered or --cv past:N: number of rows to leave out around each fold, or before it",
        "N",
        int,
    ),
    "--criterion": _option(
        "criterion to select by: error (default for classification), mse (default for regression), "
        "press, span, gcv, evidence, radius_margin, or the name of a scikit-learn scorer "
        "(balanced_accuracy, f1_macro, r2, …)",
        "NAME",
    ),
    "--class-weight": _option(
        "weight classes equally; select by balanced accuracy", choices=["balanced"]
    ),
    "--calibration": _option(
        "calibration of probabilities: log_odds (default), temperature, sigmoid, isotonic or none",
        "NAME",
        _or_none,
    ),
    "--intervals": _option(
        "prediction intervals: auto (default: cv+, or normalised where one width misleads), cv+, "
        "jackknife+, normalised or none",
        "NAME",
        _or_none,
    ),
    "--gammas": _option(
        "widths to try, e.g. 2^-15:2^9:13, relative to the mean distance between rows unless --simple",
        "GRID",
        grid,
    ),
    "--alphas": _option("ridges to try, e.g. 0.1,1,10 or 2^-15:2^5:11", "GRID", grid),
    "--loss": _option(
        "alpha is the ridge of the sum (default) or of the mean of the squared errors",
        choices=["sum", "mean"],
    ),
    "--search": _option(
        "search strategy: auto (default), grid, or halving (only with --simple or --metric none)", "NAME"
    ),
    "--approximation": _option(
        "kernel approximation: auto (default), exact, nystroem, cg, grid, toeplitz, circulant "
        "or state_space",
        "NAME",
    ),
    "--check": _flag("check the approximation against the exact method"),
    "--device": _option("device to compute on, such as cuda or cuda:1 (default: CPU)", "NAME"),
    "--jobs": _option("number of threads (-1: all cores)", "N", int, dest="n_jobs"),
    "--seed": _option("random seed (default: 0)", "N", int, dest="random_state"),
}
_TEST: Specs = {
    "--test": _option("another table to score the model on", "TABLE", path),
    "--holdout": _option(
        "fraction of the rows to hold out and score the model on: random rows, whole --groups, or the "
        "last rows with --ordered",
        "FRACTION",
        share,
    ),
}
_TIME: Specs = {
    "--time-budget": _option("stop the search after 90 (seconds), 5m or 2h", "TIME", duration)
}
_READING: Specs = {
    "--decimal": _option("decimal mark: . (default) or ,", "CHAR"),
    "--thousands": _option("thousands separator: , . ' or a space (default: none)", "CHAR"),
    "--day-first": _option(
        "read 3/4/2024 as 3 April", action="store_const", const=True, dest="dayfirst"
    ),
    "--month-first": _option(
        "read 3/4/2024 as 4 March", action="store_const", const=False, dest="dayfirst"
    ),
    "--delimiter": _option("column delimiter (tab for a tab)", "CHAR"),
    "--encoding": _option("text encoding, such as latin-1 or utf-16", "NAME"),
    "--na-values": _option(
        "further texts that mean a missing value, e.g. ?,unknown (besides '', NA, NaN, …)",
        "TEXT",
        action="append",
    ),
    "--sheet": _option("sheet of a spreadsheet, by name or number (default: the first)", "NAME|N"),
}
_RESUME: Specs = {"--resume": _flag("write a journal and resume from it")}
_FORCE: Specs = {"--force": _flag("replace existing files")}
_JSON: Specs = {"--json": _flag("print one JSON object instead of text")}
# Options of the commands themselves. Parameters of the model have no default here: the model has one.
_DEFAULTS = dict.fromkeys(("out", "id", "interval", "batch_rows")) | dict.fromkeys(
    ("force", "json", "quiet", "resume", "decision", "proba", "score"), False
)
# Titles of the group of reading options, for commands that fit and for those that have a model.
_PARSING_OF_TUNE = "CSV and spreadsheet parsing (default: detected)"
_PARSING_OF_MODEL = "CSV and spreadsheet parsing (default: as in tune)"


# What each command does, the first sentence in a line of the overview; its options by the title of their
# group, those of "" first and without one.
_COMMANDS: dict[str, tuple[str, dict[str, Specs]]] = {
    "tune": (
        "Choose a model for a table and save it: kernel, metric, width and ridge are chosen by "
        "cross-validation, and the best models are blended. Numbers are standardised, text is one-hot "
        "encoded, dates become elapsed time and cycles. Rows are assigned to folds at random, "
        "stratified by class, unless --groups or --ordered is given. Ctrl-C ends the search and keeps "
        "the best model so far; a second Ctrl-C stops at once.",
        {
            "": _TABLE | _TARGET,
            "columns": _COLUMNS,
            "search": _SEARCH | _TIME | _RESUME,
            "test": _TEST,
            _PARSING_OF_TUNE: _READING,
            "output": {
                "--out": _option(
                    "directory for model.onefold, search.csv and report.html (default: TABLE-onefold)",
                    "DIR",
                    path,
                ),
                "--quiet": _flag("print the result only, no progress or notes"),
                **_FORCE,
                **_JSON,
            },
        },
    ),
    "predict": (
        "Predict every row of a table. Predictions are in the order of the rows. Tables in .csv, .tsv "
        "and .parquet format may be larger than memory. Columns that the model does not need are "
        "ignored.",
        {
            "": _MODEL | _TABLE,
            "output": {
                "--out": _option(
                    "write the predictions to a .csv or .parquet file (default: CSV to stdout)",
                    "FILE",
                    path,
                ),
                "--id": _option("ID column to copy (default: the one given to tune)", "COL"),
                "--decision": _flag("add decision values (classification)"),
                "--proba": _flag("add the probability of every class (classification)"),
                "--interval": _option(
                    "add lower and upper bounds with this coverage, e.g. 0.9", "COVERAGE", coverage
                ),
                "--score": _flag(
                    "score against the target column of the table; print the score to stderr"
                ),
                "--batch-rows": _option("number of rows to hold in memory at a time", "N", positive),
                "--json": _flag(
                    "print one JSON object: rows, file, score, and predictions unless --out is given"
                ),
                **_FORCE,
            },
            _PARSING_OF_MODEL: _READING,
        },
    ),
    "plan": (
        "Show what tune would run, with its time and memory. Takes the options of tune; reads and "
        "prepares the table. The memory is what is needed in addition to the table.",
        {
            "": _TABLE | _TARGET | _JSON,
            "columns": _COLUMNS,
            "search": _SEARCH,
            _PARSING_OF_TUNE: _READING,
        },
    ),
    "report": (
        "Write a report on a model and its rows: scores compared with baselines, what ran and why, "
        "importances, weak spots, warnings. TABLE holds the rows that the model was tuned on; other "
        "rows are scored as a test set.",
        {
            "": {
                **_MODEL,
                **_TABLE,
                "--out": _option(
                    "HTML file to write (default: report.html next to the model, which is replaced)",
                    "FILE",
                    path,
                ),
                "--json": _flag("print the report as one JSON object; write HTML only with --out"),
                **_FORCE,
            },
            _PARSING_OF_MODEL: _READING,
        },
    ),
    "inspect": (
        "Show what a model file contains: model, scores, features, preparation.",
        {"": _MODEL | _JSON},
    ),
    "compress": (
        "Reduce a model to fewer centres: it predicts faster, its file is smaller and has fewer rows of "
        "the training table. Shows what this changes. Give --centres or --tolerance.",
        {
            "": {
                **_MODEL,
                "--centres": _option("number of centres to keep", "N", positive),
                "--tolerance": _option(
                    "keep the fewest centres for which predictions change by at most this share of the "
                    "held-out error, e.g. 0.05",
                    "T",
                    tolerance,
                ),
                "--rows": _option(
                    "table to measure the change on, preferably rows that the model was not tuned on; "
                    "with the target column, errors are those of these rows (default: the centres that "
                    "are left out)",
                    "TABLE",
                    path,
                    dest="table",
                ),
                "--seed": _option("random seed (default: 0)", "N", int, dest="random_state"),
                "--out": _option(
                    "model file to write (default: model-compressed.onefold next to model.onefold)",
                    "FILE",
                    path,
                ),
                **_FORCE,
                **_JSON,
            },
            _PARSING_OF_MODEL: _READING,
        },
    ),
    "demo": (
        "Tune, test and save a model on example data: scikit-learn's handwritten digits, with a report; "
        "then a synthetic function whose relevant columns are known. Compares both with --simple.",
        {"": {"--out": _option("directory to write to (default: onefold-demo)", "DIR", path), **_FORCE}},
    ),
}
_EXAMPLES = """\
examples:
  onefold demo
  onefold tune houses.csv --target price
  onefold predict houses-onefold/model.onefold new_houses.csv --out prices.csv
  onefold report houses-onefold houses.csv

exit codes: 0 success; 1 internal error or not enough memory; 2 wrong usage or unusable input;
130 interrupted with Ctrl-C; 143 stopped with SIGTERM
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are ValueErrors, which `main` prints in one line like all others."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command; ``arguments.command`` names the module that runs it."""
    parser = _Parser(
        prog="onefold",
        description="Least-squares kernel machines that choose their own hyper-parameters.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onefold {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (description, groups) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=re.split("[.:]", description)[0].lower(),
            description=description,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        for title, specs in groups.items():
            group: Any = command.add_argument_group(title) if title else command
            for option, spec in specs.items():
                group.add_argument(option, **spec)
        options: dict[str, list[str]] = {}
        for action in command._actions:
            options[action.dest] = [*options.get(action.dest, []), *action.option_strings]
        command.set_defaults(command=name, options=options, **_DEFAULTS)
    return parser


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of a command; unknown options are refused with the most similar one."""
    words = list(sys.argv[1:] if argv is None else argv)
    for place, word in enumerate(words):  # a flag, unless "auto" follows: it takes no table
        if word == "--ordered" and words[place + 1 : place + 2] != ["auto"]:
            words[place] = "--ordered=yes"
    parser = build_parser()
    try:
        arguments, unknown = parser.parse_known_args(words)
    except ValueError as error:
        arguments, unknown = _parsed_with_table(parser, words, error)
    if unknown:
        from onefold.facts.words import similar_names  # imports NumPy, which --help does without

        options = [option for strings in arguments.options.values() for option in strings]
        similar = similar_names(unknown[0].partition("=")[0], options, most=1)
        hint = f"did you mean {similar[0]}? " if similar else ""
        raise ValueError(
            f"unrecognized arguments: {' '.join(unknown)} ({hint}see onefold {arguments.command} --help)"
        )
    return arguments


def _parsed_with_table(
    parser: argparse.ArgumentParser, words: list[str], error: ValueError
) -> tuple[argparse.Namespace, list[str]]:
    """Parse a command line whose table follows the names of --drop or --categorical.

    These options take every name that follows them, the table's as well: the last name is the table if
    there is such a file. Otherwise the original `error` is raised.
    """
    lists = [start for start, word in enumerate(words) if word in _LISTS]
    for start in lists:
        end = next((j for j in range(start + 1, len(words)) if words[j].startswith("-")), len(words))
        table = words[end - 1]
        if end - start > 2 and (os.path.exists(table) or glob.has_magic(table)):
            without_table = words[: end - 1] + words[end:]
            with suppress(ValueError):
                return parser.parse_known_args([*without_table[:1], table, *without_table[1:]])
    if lists and "TABLE" in str(error):
        raise ValueError(f"{error}; {words[lists[0]]} takes every name after it, so put the table first")
    raise error


def _settings(arguments: argparse.Namespace, specs: Specs) -> dict[str, Any]:
    """The options among `specs` that the command line has, by their parameters."""
    names = [spec.get("dest", option.lstrip("-").replace("-", "_")) for option, spec in specs.items()]
    return {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}


def parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, as parameters of :func:`onefold.tuning.tuning`."""
    settings = _settings(arguments, _TARGET | _COLUMNS | _SEARCH | _TIME | _TEST)
    groups = settings.get("groups")
    return settings if groups is None or len(groups) > 1 else settings | {"groups": groups[0]}


def reading_options(arguments: argparse.Namespace) -> list[str]:
    """The options for reading a table that the command line has."""
    return [arguments.options[name][0] for name in _settings(arguments, _READING)]


def open_from_arguments(arguments: argparse.Namespace, remembered: Reading | None = None) -> TableSource:
    """Open the table of a command; options it was not called with are those `remembered` by a model."""
    from onefold.tables import Reading, open_table

    options = _settings(arguments, _READING)
    if "na_values" in options:
        texts = [text.strip() for value in options["na_values"] for text in value.split(",")]
        options["na_values"] = tuple(texts)
    source = open_table(arguments.table, (remembered or Reading()).overridden(**options))
    for name in sorted({*options} - {*source.options}):
        kinds = "spreadsheets" if name == "sheet" else ".csv and .tsv tables"
        option = arguments.options[name][-1 if options[name] is False else 0]
        raise ValueError(f"{option} applies only to {kinds}; leave it out for {source.path.name}")
    return source
