"""The wheel and the source archive in empty environments, with the oldest and newest supported versions.

    python -m build && nox                               (or make release)
    nox -s oldest -- tests/saving                        some of the tests

`oldest` has the minimum of every version in pyproject.toml on the oldest Python, `newest` the newest
versions on every Python that the classifiers name and on the next one; a Python that is not installed is
skipped. PyTorch is left out: it is larger than everything else together, and `make test` has it.
"""

from __future__ import annotations

import tarfile
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = "dask,excel,fast,onnx,plot"
PYTHONS = nox.project.python_versions({"project": PROJECT})
NEXT_PYTHON = f"3.{int(PYTHONS[-1].split('.')[1]) + 1}"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.stop_on_first_error = False


@nox.session(python=False)
def archives(session: nox.Session) -> None:
    """The version is dated, and the archives hold what is under version control and nothing else."""
    session.run("python", "-m", "tests.tools.archives")


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The oldest supported version of every dependency."""
    _try_out(session, "lowest-direct")


@nox.session(python=[*PYTHONS, NEXT_PYTHON])
def newest(session: nox.Session) -> None:
    """The newest version of every dependency."""
    _try_out(session, "highest")


def _try_out(session: nox.Session, resolution: str) -> None:
    """The wheel passes a smoke test with what a user installs, the source archive its own tests."""
    (wheel,) = ROOT.glob("dist/*.whl")
    (source,) = ROOT.glob("dist/*.tar.gz")
    folder = Path(session.create_tmp())
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")

    session.install("--resolution", resolution, "-r", "pyproject.toml", "--extra", "plot")
    session.install("--no-deps", str(wheel))
    session.chdir(unpacked)
    session.run("python", "tests/tools/smoke.py", env=ONE_THREAD)

    session.chdir(ROOT)
    session.install("--resolution", resolution, f".[{EXTRAS}]", "--group", "dev")
    session.install("--reinstall-package", "onefold", "--no-deps", str(source))
    session.chdir(unpacked)
    options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", *options, *(session.posargs or ["tests"]), env=ONE_THREAD)
