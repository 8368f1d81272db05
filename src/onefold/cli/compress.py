"""``onefold compress``: a model in, the same model on fewer centres out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onefold import saving
from onefold.cli.options import open_from_arguments, reading_options
from onefold.cli.output import model_file, refuse_existing, replaced_file
from onefold.cli.terminal import command_line
from onefold.facts.summary import compression_lines
from onefold.facts.unwrap import unwrap
from onefold.facts.words import aligned, json_text
from onefold.tables import TableModel

# What the name of the default file ends with, before its suffix.
_ENDING = "-compressed"


def run_compress(arguments: argparse.Namespace) -> None:
    """Run the command."""
    centres = getattr(arguments, "centres", None)
    tolerance = getattr(arguments, "tolerance", None)
    table: Path | None = getattr(arguments, "table", None)
    if (centres is None) == (tolerance is None):
        raise ValueError("give either --centres or --tolerance")
    ignored = reading_options(arguments)
    if table is None and ignored:
        raise ValueError(f"{ignored[0]} applies only to the table of --rows; leave it out")
    path = model_file(arguments.model)
    out = arguments.out or path.with_name(f"{path.stem}{_ENDING}{path.suffix}")
    refuse_existing([out], arguments.force, inputs=[path] if table is None else [path, table])
    model = saving.load(path)
    if not hasattr(model, "compressed"):
        raise ValueError(f"{path} contains a {type(model).__name__}, which has no centres")
    options: dict[str, Any] = {"random_state": getattr(arguments, "random_state", 0)}
    if table is not None:
        if not isinstance(model, TableModel):
            raise ValueError(
                f"--rows needs a model that was tuned on a table; {path} contains a "
                f"{type(model).__name__}, which has the method compressed() in Python"
            )
        source = open_from_arguments(arguments, model.reading_)
        options["X"] = source
        if model.target_ in source.names:
            options["y"] = model.target_
    small = model.compressed(centres, tolerance=tolerance, **options)
    with replaced_file(out) as temporary:
        small.save(temporary)
    approximation = unwrap(small).estimator.approximation_
    sizes = {"bytes": out.stat().st_size, "bytes_before": path.stat().st_size}
    if arguments.json:
        facts = {"file": str(out)} | sizes
        print(json_text(facts | {"compressed": approximation["compressed"]}))
        return
    print(f"{out} ({sizes['bytes']} bytes; {path}: {sizes['bytes_before']} bytes)")
    print("\n".join(aligned(compression_lines(approximation))))
    if isinstance(small, TableModel):
        print(f"Predict with: {command_line('predict', str(out))} NEW_TABLE")
