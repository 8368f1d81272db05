"""Files are written whole or not at all, whoever else writes them; warnings name the user's line."""

import errno
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.approximations import Grid
from onefold.machine.files import atomic_write
from onefold.machine.speed import Speed, machine_speed


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, OSError, "No space left on device; make room there"),
        (
            errno.EACCES,
            PermissionError,
            "Permission denied; write to a folder where you have permission",
        ),
        (errno.EIO, OSError, "Input/output error; check path, permissions and free space"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_errors_of_the_disk_name_the_file_that_was_asked_for(
    tmp_path, number, kind, words, named
) -> None:
    def write() -> None:
        with atomic_write(tmp_path / "file") as temporary:
            raise OSError(number, os.strerror(number), *([str(temporary)] if named else []))

    with pytest.raises(kind, match=words) as found:
        write()
    assert (found.value.errno, found.value.filename) == (number, str(tmp_path / "file"))


@pytest.mark.skipif(os.name != "posix", reason="pipes with names and links are of POSIX systems")
@pytest.mark.parametrize("what", ["folder", "pipe", "link to a pipe"])
def test_folders_and_devices_are_refused_before_the_work(tmp_path, what) -> None:
    path = tmp_path / "place"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    before = path.lstat()
    with pytest.raises(OSError, match="folder or a device; give the name of a file") as found:
        atomic_write(path).__enter__()
    assert found.value.filename == str(path)
    assert path.lstat() == before


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_leads_to_the_new_file(tmp_path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_errors_of_other_files_stay_as_they_are(tmp_path) -> None:
    with pytest.raises(FileNotFoundError) as found, atomic_write(tmp_path / "file"):
        (tmp_path / "other").read_text()
    assert found.value.filename == str(tmp_path / "other")


def test_a_report_into_no_folder_says_which_file(tmp_path) -> None:
    model = LSSVRCV(gammas=[1.0], alphas=[1.0]).fit(np.eye(9), np.arange(9.0))
    with pytest.raises(FileNotFoundError, match=r"in a folder that exists: '.*nowhere/r\.html'"):
        model.report(tmp_path / "nowhere" / "r.html")


def test_threads_do_not_share_a_name(tmp_path) -> None:
    path = tmp_path / ("x" * 240)  # near the limit of file systems, to which nothing can be added

    def write(number: int) -> None:
        with atomic_write(path) as temporary:
            temporary.write_text(str(number) * 1000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(10)))
    text = path.read_text()
    assert text == text[0] * 1000
    assert list(tmp_path.iterdir()) == [path]


def test_a_speed_that_cannot_be_kept_leaves_no_trace(tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("onefold.machine.files.os.replace", fail)
    monkeypatch.setattr("onefold.machine.speed.measure", lambda: Speed(1.0, 2.0))
    machine_speed.cache_clear()
    assert machine_speed() == Speed(1.0, 2.0)
    machine_speed.cache_clear()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_warning_names_the_line_of_the_fit(n_jobs) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    y = np.sin(4 * X[:, 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        LSSVRCV(approximation=Grid(points=8), gammas=[30.0, 40.0], n_jobs=n_jobs).fit(X, y)
    these = [warning for warning in found if "the grid is too coarse" in str(warning.message)]
    assert these
    assert {warning.filename for warning in these} == {__file__}
