"""What the command line accepts, and the help it gives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from onefold._version import __version__
from onefold.cli import values
from onefold.cli.tableoptions import add_columns, add_table_options

_DESCRIPTION = "Least-squares kernel machines that choose their own hyper-parameters."
_TABLES = (
    "a .csv, .tsv (also .gz), .parquet, .xlsx, .xls, .ods or svmlight (.libsvm, .svm, .txt) "
    "table; 'DIR/*.parquet' "
    "or a folder of Parquet files is one table"
)
_APPROXIMATION = "of the kernel matrix (default: auto)"
_CATEGORICAL = "columns whose numbers are codes of categories"
_SIMPLE = "plain search: one kernel (rbf) as it is, over gamma and alpha alone"
_KERNELS = (
    "auto (rbf, matern12 and laplacian compete), one or several of rbf, laplacian, matern12, matern32, "
    "matern52, polynomial, linear (default: auto)"
)
_METRIC = "learned for every kernel: a weight per feature, or also how they mix (default: auto)"
_TIME = "Ctrl-C ends the search and keeps the best so far; a second one stops at once"
_SEARCH = (
    "how the grid is gone through (default: grid); others than grid go with --simple or --metric none"
)
_BUDGET = "begin nothing new after so long (90, 90s, 5m, 2h); the best so far is fitted and saved"
_RESUME = (
    "go on where a run of the same command with --resume was stopped or killed; its journal DIR.journal "
    "is removed once the whole search is done and saved"
)
_EXAMPLES = """\
examples:
  onefold demo
  onefold tune houses.csv --target price
  onefold predict houses-onefold/model.onefold new_houses.csv --out prices.csv
  onefold report houses-onefold houses.csv
"""


class _Parser(argparse.ArgumentParser):
    """argparse that leaves errors to `main`, so that they are one line like all others."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command; ``arguments.command`` names the module that runs it."""
    parser = _Parser(
        prog="onefold",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onefold {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary, add_arguments in (
        ("tune", "choose a model for a table and save it", _add_tune),
        ("predict", "predict the rows of a table", _add_predict),
        ("plan", "say what tune would run, its time and memory", _add_plan),
        ("report", "write a page about a model and its rows", _add_report),
        ("inspect", "show what a model file holds", _add_inspect),
        ("demo", "tune, test and save a model on example data", _add_demo),
    ):
        command = commands.add_parser(name, help=summary, allow_abbrev=False)
        command.set_defaults(command=name)
        add_arguments(command)
        command.set_defaults(options={one.dest: one.option_strings for one in command._actions})
    return parser


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Choose kernel, metric, width and ridge by cross-validation, blend the best, fit the model "
        "and save it with the preparation of its table. Numbers are standardised, text becomes "
        "indicators, dates become elapsed time and cycles. Rows are shuffled into folds, evenly by "
        "class, unless --groups or --ordered says otherwise."
    )
    add = parser.add_argument
    add("table", metavar="TABLE", type=values.path, help=_TABLES)
    add("--target", metavar="COL", help="column to predict (svmlight: target)")
    add("--task", choices=["classification", "regression"], help="default: by the target's values")
    _add_tune_columns(parser.add_argument_group("columns"))
    add_table_options(parser)
    _add_tune_search(parser.add_argument_group("search"))
    _add_tune_test(parser.add_argument_group("test"))
    _add_tune_time(parser.add_argument_group("time", _TIME))
    add = parser.add_argument_group("output").add_argument
    files = "gets model.onefold, search.csv and report.html (default: TABLE + -onefold)"
    add("--out", metavar="DIR", type=values.path, help=files)
    add("--force", action="store_true", help="replace files that exist")
    add("--json", action="store_true", help="print one JSON object instead of text")
    add("--quiet", action="store_true", help="no progress and no notes, only the result")


def _add_tune_columns(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add_columns(group, "--drop", "columns to leave out")
    add_columns(group, "--categorical", _CATEGORICAL)
    add("--id", metavar="COL", dest="id_column", help="ID column, copied to the predictions")
    add("--weight", metavar="COL", help="column of positive row weights")
    add("--groups", metavar="COL", help="rows with the same value stay in the same fold")
    missing = (
        "fill in median and most frequent, with a feature that says where, or refuse (default: impute)"
    )
    add("--missing", choices=["impute", "error"], default="impute", help=missing)


def _add_tune_search(group: argparse._ArgumentGroup) -> None:
    _add_choices(group)
    add = group.add_argument
    add("--cv", type=values.folds, default=5, metavar="N|loo", help="folds (default: 5)")
    add("--ordered", action="store_true", help="folds are blocks of consecutive rows (time)")
    gap = "with --ordered: rows left out around each fold"
    add("--gap", type=values.whole_number, default=0, metavar="N", help=gap)
    add(
        "--criterion",
        metavar="NAME",
        help="default: error (classification), mse (regression); or press, span, gcv, evidence, "
        "radius_margin, or the name of a scikit-learn scorer (balanced_accuracy, f1_macro, r2, …)",
    )
    weight = "rare classes weigh as much as others; chooses by balanced_accuracy unless told otherwise"
    add("--class-weight", choices=["balanced"], help=weight)
    gammas = "as 0.1,1,10 or 2^-15:2^9:13; relative to the mean distance of the rows unless --simple"
    add("--gammas", type=values.grid, metavar="GRID", help=gammas)
    add("--alphas", type=values.grid, metavar="GRID", help="as 0.1,1,10 or 2^-15:2^5:11")
    add("--search", choices=values.Names(values.search_methods), default="grid", help=_SEARCH)
    add(
        "--approximation",
        choices=values.Names(values.approximations),
        default="auto",
        help=_APPROXIMATION,
    )
    add("--check", action="store_true", help="check the approximation against the exact method")
    add("--jobs", type=values.threads, metavar="N", help="worker threads (-1: all cores)")
    add("--seed", type=values.seed, default=0, metavar="N", help="shuffles rows into folds (default: 0)")


def _add_tune_test(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--test", metavar="TABLE", type=values.path, help="score the model on a table tuning never saw")
    holdout = (
        "keep this share of the rows away from tuning and score the model on it: random rows, evenly by "
        "class; whole groups with --groups; the last ones with --ordered"
    )
    add("--holdout", metavar="SHARE", type=values.share, help=holdout)


def _add_tune_time(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--time-budget", type=values.duration, metavar="SECONDS", help=_BUDGET)
    add("--resume", action="store_true", help=_RESUME)


def _add_choices(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What is chosen among."""
    add = parser.add_argument
    add("--simple", action="store_true", help=_SIMPLE)
    add("--kernel", metavar="NAME[,NAME…]", help=_KERNELS)
    add("--metric", choices=["none", "diagonal", "full", "auto"], help=_METRIC)
    blend = "blend the best by their held-out predictions, or keep one (default: blend)"
    add("--blend", action=argparse.BooleanOptionalAction, help=blend)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Predict the rows of a table, in their order, block by block: tables larger than memory "
        "are fine for .csv, .tsv, .parquet and svmlight. Columns not needed are ignored."
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=values.path, help="model.onefold, or the directory tune wrote")
    add("table", metavar="TABLE", type=values.path, help=_TABLES)
    add("--out", metavar="FILE", type=values.path, help=".csv or .parquet (default: CSV on stdout)")
    add("--id", metavar="COL", help="column to repeat beside predictions (default: tune's --id)")
    add("--decision", action="store_true", help="add decision values (classification)")
    add("--proba", action="store_true", help="add the probability of every class (classification)")
    interval = "add bounds that hold the target with this probability, as 0.9 (regression)"
    add("--interval", metavar="COVERAGE", type=values.share, help=interval)
    add("--score", action="store_true", help="compare with the table's target column, on stderr")
    add("--batch-rows", type=values.positive_int, metavar="N", help="rows in memory at a time")
    add("--force", action="store_true", help="replace FILE if it exists")
    add_table_options(parser, default="as in tune")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say beforehand what tune would run on a table, how long it would take on this machine and "
        "how much memory it would need beside the table. Reads the table once."
    )
    add = parser.add_argument
    add("table", metavar="TABLE", type=values.path, help=_TABLES)
    add("--target", metavar="COL", help="column to predict; any one column, if not given")
    add_columns(parser, "--drop", "columns to leave out")
    add_columns(parser, "--categorical", _CATEGORICAL)
    _add_choices(parser)
    add("--cv", type=values.folds, default=5, metavar="N|loo", help="folds (default: 5)")
    add("--gammas", type=values.positive_int, metavar="N", help="widths (default: as tune)")
    add("--alphas", type=values.positive_int, metavar="N", help="ridges (default: as tune)")
    add("--targets", type=values.positive_int, metavar="N", help="classes (default: counted)")
    budget = "time budget of the automatic choice (default: 300)"
    add("--seconds", type=values.positive_int, default=300, metavar="N", help=budget)
    add(
        "--approximation",
        choices=values.Names(values.approximations),
        default="auto",
        help=_APPROXIMATION,
    )
    add("--json", action="store_true", help="print one JSON object")
    add_table_options(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML page about a model: how good it is beside simple models, what ran and why, what "
        "matters, where it is worst, what to beware of. TABLE holds the rows that it was tuned on; "
        "with other rows the scores are those of a test."
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=values.path, help="model.onefold, or the directory tune wrote")
    add("table", metavar="TABLE", type=values.path, help=_TABLES)
    add("--out", metavar="FILE", type=values.path, help="the page (default: report.html)")
    add("--target", metavar="COL", help="of a model that was not tuned on a table")
    add("--force", action="store_true", help="replace FILE if it exists")
    add("--json", action="store_true", help="print the facts as one JSON object; a page only with --out")
    add_table_options(parser, default="as in tune")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what a model file holds: model, scores, features, preparation."
    add = parser.add_argument
    add("model", metavar="MODEL", type=values.path, help="model.onefold, or its directory")
    add("--json", action="store_true", help="print one JSON object")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Tune a classifier on scikit-learn's handwritten digits, test it on rows that tuning never "
        "saw, next to the plain search and to baselines, and save the model and a page about "
        "it; then compare both searches on a function of which it is known what matters."
    )
    add = parser.add_argument
    own = Path("onefold-demo")
    add("--out", metavar="DIR", type=values.path, default=own, help="default: onefold-demo")
    add("--force", action="store_true", help="replace files another run left in DIR")
