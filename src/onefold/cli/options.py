"""What the command line accepts: tables of options, and which of them each command has.

Options for columns, the search, tests and time are parameters of :func:`onefold.tuning.tuning` or of
`TableClassifier` and `TableRegressor`, by the same name (``--class-weight`` is `class_weight`) or that
in ``dest``. What is not given is left to them. A new one is a line here.
"""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from onefold._version import __version__

if TYPE_CHECKING:
    from onefold.tables import Reading, TableSource

Specs = dict[str, dict[str, Any]]


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _positive(text: str) -> float:
    base, power, exponent = text.strip().partition("^")
    try:
        value = _float(base) ** _float(exponent) if power else _float(base)
    except (OverflowError, ZeroDivisionError):
        value = math.nan
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number (as in 0.5 or 2^-3)")
    return value


def grid(text: str) -> list[float]:
    """Positive numbers: ``0.1,1,10`` or log-spaced ``2^-15:2^9:13`` (first : last : how many)."""
    import numpy as np

    values: list[float] = []
    for part in text.split(","):
        pieces = part.split(":")
        if len(pieces) == 1:
            values.append(_positive(part))
        elif len(pieces) == 3:
            first, last = _positive(pieces[0]), _positive(pieces[1])
            values.extend(np.geomspace(first, last, count(pieces[2])).tolist())
        else:
            raise argparse.ArgumentTypeError(
                f"'{part}' is neither a number nor FIRST:LAST:COUNT (as in 2^-15:2^9:13)"
            )
    return values


def share(text: str) -> float:
    """A number between 0 and 1."""
    if not 0 < _float(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share between 0 and 1, such as 0.2")
    return float(text)


def frequency(text: str) -> float:
    """A number of rows, or a share of them."""
    if text.isdigit() and int(text) >= 1:
        return int(text)
    if not 0 < _float(text) < 1:
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither a number of rows nor a share of them between 0 and 1"
        )
    return float(text)


def or_none(text: str) -> str | None:
    """A name, or none."""
    return None if text == "none" else text


def duration(text: str) -> float:
    """Seconds: ``90``, ``90s``, ``5m`` or ``2h``."""
    number, unit = text.strip(), {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text.strip()[-1:])
    value = _float(number) if unit is None else unit * _float(number[:-1])
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: give seconds, or as in 90s, 5m, 2h")
    return value


def path(text: str) -> Path:
    """A path; none at all, as an unset variable of the shell leaves it, is not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give a path, or . for this directory")
    if text == "-":
        raise argparse.ArgumentTypeError("standard input is not read; write the table to a file first")
    return Path(text)


def names(text: str) -> str | list[str]:
    """A name, or several with commas between them."""
    return [name.strip() for name in text.split(",")] if "," in text else text


def _whole(accepted: Callable[[int], bool], refusal: str) -> Callable[[str], int]:
    """A parser of whole numbers."""

    def parse(text: str) -> int:
        try:
            value: int | None = int(text)
        except ValueError:
            value = None
        if value is None or not accepted(value):
            raise argparse.ArgumentTypeError(f"'{text}' {refusal}")
        return value

    return parse


count = _whole(lambda value: value >= 1, "is not a whole number from 1")
whole_number = _whole(lambda value: value >= 0, "is not a whole number from 0")
seed = _whole(lambda value: 0 <= value < 2**32, "is no seed: give a whole number from 0, below 2^32")
threads = _whole(lambda value: value != 0, "is no number of threads: give 1, 2, … or -1 for all")
_folds = _whole(lambda value: value >= 2, "is neither 'loo' nor a number of folds (≥ 2)")


def folds(text: str) -> int | Literal["loo"]:
    """A number of folds, or ``loo`` for leave-one-out."""
    return "loo" if text == "loo" else _folds(text)


def _option(purpose: str, metavar: str | None = None, parse: Any = None, **more: Any) -> dict[str, Any]:
    given = {"help": purpose, "metavar": metavar, "type": parse}
    return {name: value for name, value in given.items() if value is not None} | more


def _flag(purpose: str) -> dict[str, Any]:
    return _option(purpose, action="store_true")


def _columns(purpose: str) -> dict[str, Any]:
    return _option(purpose, "COL", nargs="+", action="extend")


def _own(purpose: str, metavar: str | None = None, parse: Any = None) -> dict[str, Any]:
    """An option of the command itself, None or False unless given."""
    if metavar is None:
        return _flag(purpose) | {"default": False}
    return _option(purpose, metavar, parse, default=None)


_TABLES = (
    "a .csv, .tsv (also .gz), .parquet, .xlsx, .xls, .ods or svmlight (.libsvm, .svm, .txt) table; "
    "'DIR/*.parquet' or a folder of Parquet files is one table"
)
_TABLE: Specs = {"table": _option(_TABLES, "TABLE", path)}
_MODEL: Specs = {"model": _option("model.onefold, or the directory tune wrote", "MODEL", path)}
_TARGET: Specs = {
    "--target": _option("column to predict (svmlight: target)", "COL"),
    "--task": _option("default: by the target's values", choices=["classification", "regression"]),
}
_COLUMNS: Specs = {
    "--drop": _columns("columns to leave out"),
    "--categorical": _columns("columns whose numbers are codes of categories"),
    "--id": _option("ID column, copied to the predictions", "COL", dest="id_column"),
    "--weight": _option("column of row weights", "COL"),
    "--groups": _option("rows with the same value stay in the same fold", "COL"),
    "--missing": _option(
        "fill missing values with the median or the most frequent value and add a feature that says "
        "where, or refuse them (default: impute)",
        choices=["impute", "error"],
    ),
    "--min-frequency": _option(
        "categories in fewer rows (10), or in a smaller share of the rows (0.01), are taken together",
        "N|SHARE",
        frequency,
    ),
    "--drop-missing-target": _flag("leave out rows without a target, instead of refusing them"),
    "--target-transform": _option(
        "log: fit the logarithm of a positive target, as for prices (regression)",
        choices=["log"],
    ),
}
_SEARCH: Specs = {
    "--simple": _flag("one kernel (rbf, or that of --kernel) over gamma and alpha: no metric, no blend"),
    "--kernel": _option(
        "auto (rbf, matern12 and laplacian compete), one or several of rbf, laplacian, matern12, "
        "matern32, matern52, polynomial, linear (default: auto)",
        "NAME[,NAME…]",
        names,
    ),
    "--metric": _option(
        "learned for every kernel: a weight per feature, or also how they mix (default: auto)",
        choices=["none", "diagonal", "full", "auto"],
    ),
    "--blend": _option(
        "blend the best models by their held-out predictions, or keep one (default: blend)",
        action=argparse.BooleanOptionalAction,
    ),
    "--cv": _option("folds (default: 5)", "N|loo", folds),
    "--ordered": _flag("folds are blocks of consecutive rows (time); each is predicted from all others"),
    "--gap": _option("with --ordered: rows left out around each fold", "N", whole_number),
    "--criterion": _option(
        "default: error (classification), mse (regression); or press, span, gcv, evidence, "
        "radius_margin, or the name of a scikit-learn scorer (balanced_accuracy, f1_macro, r2, …)",
        "NAME",
    ),
    "--class-weight": _option(
        "rare classes weigh as much as others; chooses by balanced_accuracy unless --criterion is given",
        choices=["balanced"],
    ),
    "--calibration": _option(
        "how decision values become probabilities: temperature, sigmoid, isotonic or none (default: "
        "temperature; classification)",
        "NAME",
        or_none,
    ),
    "--intervals": _option(
        "cv+ (one width for all rows), jackknife+, normalised (wider where errors are larger) or none "
        "(default: cv+; regression)",
        "NAME",
        or_none,
    ),
    "--gammas": _option(
        "as 0.1,1,10 or 2^-15:2^9:13; relative to the mean distance of the rows unless --simple",
        "GRID",
        grid,
    ),
    "--alphas": _option("as 0.1,1,10 or 2^-15:2^5:11", "GRID", grid),
    "--search": _option(
        "search strategy: grid or halving (default: grid); halving needs --simple or --metric none",
        "NAME",
    ),
    "--approximation": _option(
        "of the kernel matrix: auto, exact, nystroem, grid, toeplitz, circulant (default: auto)",
        "NAME",
    ),
    "--check": _flag("check the approximation against the exact method"),
    "--device": _option("where to compute: cuda, cuda:1 (default: the processor)", "NAME"),
    "--jobs": _option("threads (-1: all cores)", "N", threads, dest="n_jobs"),
    "--seed": _option("of the shuffle into folds (default: 0)", "N", seed, dest="random_state"),
}
_TEST: Specs = {
    "--test": _option("score the model on a table that it is not tuned on", "TABLE", path),
    "--holdout": _option(
        "hold out this share of the rows and score the model on it: random rows, evenly by class; whole "
        "groups with --groups; the last ones with --ordered",
        "SHARE",
        share,
    ),
}
_TIME: Specs = {
    "--time-budget": _option(
        "stop starting new evaluations after this long (90, 90s, 5m, 2h); the best so far is then "
        "fitted and saved, which takes its own time",
        "SECONDS",
        duration,
    ),
}
_RESUME = (
    "go on where a run of the same command with --resume was stopped or killed; its journal DIR.journal "
    "is removed once the whole search is done and saved"
)
_READING: Specs = {
    "--decimal": _option("decimal mark of numbers: . or , (default: .)", "CHAR"),
    "--thousands": _option("what separates thousands: , . ' or a blank (default: nothing)", "CHAR"),
    "--day-first": _option("3/4/2024 is in April", action="store_const", const=True, dest="dayfirst"),
    "--month-first": _option("it is in March", action="store_const", const=False, dest="dayfirst"),
    "--delimiter": _option("what separates columns; tab for a tab", "CHAR"),
    "--encoding": _option("of the text, as latin-1 or utf-16", "NAME"),
    "--na-values": _option(
        "what means a missing value besides an empty one, NA and NaN: ?,unknown (repeatable)",
        "TEXT",
        action="append",
    ),
    "--sheet": _option("of a spreadsheet, by name or number (default: the first)", "NAME|N"),
}
_FORCE: Specs = {"--force": _own("replace files that exist")}
_JSON: Specs = {"--json": _own("print one JSON object instead of text")}
_OF_TEXT, _AS_TUNED = (
    f"tables of text and spreadsheets (default: {default})" for default in ("found out", "as in tune")
)


class _Command(NamedTuple):
    summary: str
    description: str
    groups: dict[str, Specs]  # by title; those of "" come first, without one


_COMMANDS = {
    "tune": _Command(
        "choose a model for a table and save it",
        "Choose kernel, metric, width and ridge by cross-validation, blend the best models, fit the "
        "result and save it with the preparation of its table. Numbers are standardised, text becomes "
        "indicators, dates become elapsed time and cycles. Rows are shuffled into folds, evenly by "
        "class, unless --groups or --ordered says otherwise. Ctrl-C ends the search and keeps the best "
        "so far; a second one stops at once.",
        {
            "": _TABLE | _TARGET,
            "columns": _COLUMNS,
            "search": _SEARCH | _TIME | {"--resume": _own(_RESUME)},
            "test": _TEST,
            _OF_TEXT: _READING,
            "output": {
                "--out": _own(
                    "gets model.onefold, search.csv and report.html (default: TABLE + -onefold)",
                    "DIR",
                    path,
                ),
                "--quiet": _own("no progress and no notes, only the result"),
            }
            | _FORCE
            | _JSON,
        },
    ),
    "predict": _Command(
        "predict the rows of a table",
        "Predict the rows of a table, in their order, block by block: tables larger than memory are "
        "fine for .csv, .tsv, .parquet and svmlight. Columns not needed are ignored.",
        {
            "": _MODEL | _TABLE,
            "output": {
                "--out": _own(".csv or .parquet (default: CSV on stdout)", "FILE", path),
                "--id": _own("ID column to copy (default: that of tune)", "COL"),
                "--decision": _own("add decision values (classification)"),
                "--proba": _own("add the probability of every class (classification)"),
                "--interval": _own(
                    "add bounds that contain the target with this probability, as 0.9 (regression)",
                    "COVERAGE",
                    share,
                ),
                "--score": _own("compare with the target column of the table, on stderr"),
                "--batch-rows": _own("rows in memory at a time", "N", count),
                "--json": _own("print one JSON object: rows, file, score, predictions unless --out"),
            }
            | _FORCE,
            _AS_TUNED: _READING,
        },
    ),
    "plan": _Command(
        "say what tune would run, its time and memory",
        "Say what tune with the same options would run on a table, how long it would take on this "
        "machine and how much memory it would need besides the table. Reads and prepares the table.",
        {
            "": _TABLE | _TARGET | _JSON,
            "columns": _COLUMNS,
            "search": _SEARCH,
            _OF_TEXT: _READING,
        },
    ),
    "report": _Command(
        "write a page about a model and its rows",
        "Write one HTML page about a model: scores next to baselines, what ran and why, importances, "
        "weak spots, warnings. TABLE holds the rows that it was tuned on; with other rows the scores "
        "are those of a test.",
        {
            "": _MODEL
            | _TABLE
            | {
                "--target": _own("of a model that was not tuned on a table", "COL"),
                "--out": _own(
                    "the page (default: report.html next to the model, replaced)", "FILE", path
                ),
                "--json": _own("print the facts as one JSON object; a page only with --out"),
            }
            | _FORCE,
            _AS_TUNED: _READING,
        },
    ),
    "inspect": _Command(
        "show what a model file holds",
        "Show what a model file holds: model, scores, features, preparation.",
        {"": _MODEL | _JSON},
    ),
    "demo": _Command(
        "tune, test and save a model on example data",
        "Tune a classifier on scikit-learn's handwritten digits, test it on held-out rows next to the "
        "plain search and to baselines, and save the model and a page about it; then compare both "
        "searches on a function of which it is known what matters.",
        {"": {"--out": _own("default: onefold-demo", "DIR", path)} | _FORCE},
    ),
}
_EXAMPLES = """\
examples:
  onefold demo
  onefold tune houses.csv --target price
  onefold predict houses-onefold/model.onefold new_houses.csv --out prices.csv
  onefold report houses-onefold houses.csv

exit codes: 0 done; 1 internal error or not enough memory; 2 wrong usage or unusable input;
130 interrupted with Ctrl-C; 143 stopped with SIGTERM
"""


class _Parser(argparse.ArgumentParser):
    """argparse that leaves errors to `main`, so that they are one line like all others."""

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
    for name, command in _COMMANDS.items():
        one = commands.add_parser(
            name,
            help=command.summary,
            description=command.description,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        for title, specs in command.groups.items():
            place: Any = one.add_argument_group(title) if title else one
            for option, spec in specs.items():
                place.add_argument(option, **spec)
        options: dict[str, list[str]] = {}
        for action in one._actions:
            options[action.dest] = [*options.get(action.dest, []), *action.option_strings]
        one.set_defaults(command=name, options=options)
    return parser


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of a command; unknown ones are refused with the nearest that it has."""
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:
        known = [one for strings in arguments.options.values() for one in strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"unrecognized arguments: {' '.join(unknown)} ({hint}see onefold {arguments.command} --help)"
        )
    return arguments


def _given(arguments: argparse.Namespace, specs: Specs) -> dict[str, Any]:
    dests = [spec.get("dest", option.lstrip("-").replace("-", "_")) for option, spec in specs.items()]
    return {name: getattr(arguments, name) for name in dests if hasattr(arguments, name)}


def parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, as parameters of :func:`onefold.tuning.tuning`."""
    return _given(arguments, _TARGET | _COLUMNS | _SEARCH | _TIME | _TEST)


def open_asked(arguments: argparse.Namespace, remembered: Reading | None = None) -> TableSource:
    """Open the table of a command as its options say, and `remembered` where they say nothing."""
    from onefold.tables import Reading, open_table

    given = _given(arguments, _READING)
    if "na_values" in given:
        texts = [text.strip() for value in given["na_values"] for text in value.split(",")]
        given["na_values"] = tuple(texts)
    source = open_table(arguments.table, (remembered or Reading()).overridden(**given))
    for name in sorted({*given} - {*source.options}):
        kinds = "spreadsheets" if name == "sheet" else ".csv and .tsv tables"
        option = arguments.options[name][-1 if given[name] is False else 0]
        raise ValueError(f"{option} is for {kinds}; {source.path.name} needs no such option")
    return source
