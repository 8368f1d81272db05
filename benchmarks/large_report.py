"""The records of benchmarks.large, and its report: every method on every table, and the floors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import Row, markdown

METHODS = ("default", "lightgbm", "xrfm")
HOST, HOST_THREADS = "none", 2
# Name: file, task, training rows.
TABLES: dict[str, tuple[str, str, int]] = {
    "mnist": ("mnist", "classification", 56_000),
    "covtype_60000": ("covtype", "classification", 60_000),
    "covtype_100000": ("covtype", "classification", 100_000),
    "covtype_464809": ("covtype", "classification", 464_809),
    "protein": ("uci_protein", "regression", 36_584),
    "protein_10000": ("uci_protein", "regression", 10_000),
    "kin40k": ("uci_kin40k", "regression", 32_000),
    "bike": ("bike_hourly", "regression", 13_903),
    "california": ("california_housing", "regression", 16_512),
    "letter": ("letter", "classification", 16_000),
}
# Of the default on an H200: error, and seconds where they matter.
GPU_FLOORS: dict[str, tuple[float, float | None]] = {
    "mnist": (0.017, 25),
    "covtype_60000": (0.075, 20),
    "covtype_100000": (0.065, 60),
    "covtype_464809": (0.045, 600),
    "protein": (0.478, 30),
    "california": (0.371, 10),
    "bike": (0.192, 10),
    "kin40k": (0.039, None),
    "letter": (0.018, None),
}
# Of the default on the host: no more than the error of LightGBM, in TIMES its time.
HOST_FLOORS, TIMES = ("bike", "california", "protein_10000"), 2.0


def write(path: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1), "utf-8")
    new.replace(path)


def records_of(folder: Path) -> dict[str, Row]:
    """The latest record of every job, from files of one record or of many."""
    found: dict[str, Row] = {}
    for path in sorted(folder.glob("*.json")):
        held = json.loads(path.read_text("utf-8"))
        for one in held if isinstance(held, list) else [held]:
            if "job" in one and one["ended"] >= found.get(one["job"], one)["ended"]:
                found[one["job"]] = one
    return found


def verdict(one: Row, error: float, seconds: float | None) -> str:
    """Whether a record of the default keeps a floor, or by what it misses it."""
    if "failed" in one:
        return "missed: the fit failed"
    missed = ["error"] * (one["error"] > error)
    missed += ["time"] * (seconds is not None and one["seconds"] > seconds)
    return f"missed: {' and '.join(missed)}" if missed else "met"


def floor_row(what: str, one: Row | None, said: str) -> Row:
    one = one or {}
    return {"floor": what, "error": one.get("error"), "seconds": one.get("seconds"), "": said}


def gpu_floors(records: dict[str, Row]) -> list[Row]:
    """Those of a GPU; a record of another GPU or of other rows is no measurement of them."""
    rows = []
    for name, (error, seconds) in GPU_FLOORS.items():
        what = f"{name}: error {error:g}" + (f" in {seconds:g} s" if seconds else "")
        one = records.get(f"cuda-{name}-default")
        said = "not measured"
        if one is not None:
            said, gpu = verdict(one, error, seconds), one.get("gpu", "")
            if "failed" not in one and (one["rows"] != TABLES[name][2] or "H200" not in gpu):
                said = f"not measured: {one['rows']} rows on {gpu or 'an unknown GPU'}"
        rows.append(floor_row(what, one, said))
    return rows


def host_floors(records: dict[str, Row]) -> list[Row]:
    """Those of the host, beside LightGBM there."""
    rows = []
    for name in HOST_FLOORS:
        one, other = (records.get(f"{HOST}-{name}-{method}") for method in ("default", "lightgbm"))
        said = "not measured"
        what = f"{name}: error of LightGBM in {TIMES:g} times its time, {HOST_THREADS} threads"
        if one is not None and other is not None and "failed" not in other:
            what += f" ({other['error']:.4g} in {TIMES * other['seconds']:.4g} s)"
            said = verdict(one, other["error"], TIMES * other["seconds"])
            both = [record for record in (one, other) if "failed" not in record]
            if any((r["rows"], r["threads"]) != (TABLES[name][2], HOST_THREADS) for r in both):
                said = f"not measured: {other['rows']} rows, {other['threads']} threads"
        rows.append(floor_row(what, one, said))
    return rows


def table_rows(records: dict[str, Row], device: str) -> list[Row]:
    """Error and seconds of every method on a device, a row per table."""
    of_tables: dict[str, dict[str, Row]] = {}
    for one in records.values():
        if one["device"] == device:
            of_tables.setdefault(one["table"], {})[one["method"]] = one
    rows = []
    for name, methods in sorted(of_tables.items(), key=lambda item: [*TABLES].index(item[0])):
        sizes = next((one for one in methods.values() if "failed" not in one), {})
        row: Row = {"table": name} | {key: sizes.get(key) for key in ("rows", "d", "tested")}
        for method in METHODS:
            one = methods.get(method, {})
            row[method] = "failed" if "failed" in one else one.get("error")
            row[f"{method}, s"] = one.get("seconds")
        ours = methods.get("default", {})
        row |= {"promised": ours.get("promised"), "held-out rows": ours.get("held-out rows")}
        row["predict, s"] = ours.get("predict seconds")
        if "gpu bytes" in ours:
            row["peak GiB"] = ours["gpu bytes"] / 2**30
        rows.append(row)
    return rows


def shown(row: Row) -> Row:
    """Numbers as they are printed: without exponents."""
    digits = {k: ".0f" if abs(v) >= 100 else ".4g" for k, v in row.items() if isinstance(v, float)}
    return row | {key: format(row[key], form) for key, form in digits.items()}


def report(folder: Path) -> dict[str, list[Row]]:
    """Print every table and floor, and keep them as report.json and report.md."""
    records = records_of(folder)
    devices = sorted({one["device"] for one in records.values()})
    found = {f"tables, device {device}": table_rows(records, device) for device in devices}
    if not devices or any(device.startswith("cuda") for device in devices):
        found["floors of an H200"] = gpu_floors(records)
    if HOST in devices:
        found["floors of the host"] = host_floors(records)
    text = "\n\n".join(
        f"## {title}\n\n{markdown([shown(r) for r in rows])}" for title, rows in found.items()
    )
    print(f"\n{text}")
    (folder / "report.md").write_text(f"{text}\n", "utf-8")
    write(folder / "report.json", found)
    return found
