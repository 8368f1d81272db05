"""A journal survives a crash at any byte, keeps others out, and never touches a file that is none."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.machine.journal import Journal

RECORDS = [{"number": 1, "text": "ü\n"}, {"values": [0.1, float("nan"), float("-inf")]}, {"last": None}]


def written(path: Path, records: list[dict[str, Any]] = RECORDS) -> bytes:
    with Journal(path) as journal:
        for record in records:
            journal.append(record)
    return path.read_bytes()


def read(path: Path) -> list[dict[str, Any]]:
    with Journal(path) as journal:
        return list(journal.records)


FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@given(values=st.lists(FLOATS, max_size=8))
def test_every_float_comes_back(tmp_path_factory: Any, values: list[float]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, [{"values": np.array(values)}])
    for line in path.read_text("ascii").splitlines()[1:]:
        json.loads(line.split(" ", 1)[1], parse_constant=pytest.fail)
    back = np.array(read(path)[0]["values"], dtype=float)
    number = ~np.isnan(back)
    assert np.array_equal(back, values, equal_nan=True)
    assert np.array_equal(np.signbit(back[number]), np.signbit(np.array(values)[number]))


def test_a_journal_torn_at_any_byte_goes_on_from_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = written(path)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        kept = sum(end <= length for end in ends) - 1  # the first line is no record
        with Journal(path) as journal:
            assert len(journal.records) == max(kept, 0)
            for record in RECORDS[len(journal.records) :]:
                journal.append(record)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("rest", [b"\0" * 40, b"\0" * 20 + b"\n", b"0123", b'00000000 {"a": 1}\n'])
def test_what_a_crash_leaves_behind_the_last_record_is_cut_off(rest: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = written(path)
    path.write_bytes(whole + rest)
    with Journal(path) as journal:
        assert len(journal.records) == 3
        journal.append({"after": True})
    assert path.read_bytes().startswith(whole)
    assert read(path)[3:] == [{"after": True}]


def test_damage_before_the_last_record_is_refused_and_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = written(path)
    place = whole.index(b"0.1")
    damaged = whole[:place] + b"0.2" + whole[place + 3 :]
    path.write_bytes(damaged)
    with pytest.raises(
        ValueError, match=r"^line 3 of .*journal is damaged; delete the file to search again"
    ):
        Journal(path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"onefold journal 2\n", b"x", b"\0" * 100])
def test_a_file_that_is_no_journal_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table.csv is not the journal of a search; use another name"):
        Journal(path)
    assert path.read_bytes() == content


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist; create it first"):
        Journal(tmp_path / "missing" / "journal")
    with pytest.raises(IsADirectoryError):
        Journal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match=r"is a pipe or a device; use another name"):
            Journal(endless)


def test_a_process_forked_in_between_holds_nothing(tmp_path: Path) -> None:
    """Workers inherit what is open, and may live for long."""
    code = f"""
import os, time
from onefold.machine.journal import Journal
with Journal({str(tmp_path / "journal")!r}):
    child = os.fork()
    if not child:
        time.sleep(60)
try:
    Journal({str(tmp_path / "journal")!r}).close()
finally:
    os.kill(child, 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_second_one_is_told_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    in_use = r"journal is in use by another search; wait"
    with Journal(path), pytest.raises(BlockingIOError, match=in_use):
        Journal(path)
    code = f"""
import time
from onefold.machine.journal import Journal
journal = Journal({str(path)!r})
journal.append({{"from": "the first"}})
print("open", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            with pytest.raises(BlockingIOError, match=in_use):
                Journal(path)
        finally:
            process.kill()
    assert read(path) == [{"from": "the first"}]


def test_full_disks_and_interruptions_leave_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    put = os.pwrite

    def failing(error: BaseException) -> None:
        def half(file: int, line: bytes, place: int) -> int:
            put(file, line[:7], place)
            raise error

        monkeypatch.setattr(os, "pwrite", half)

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    failing(full)
    with pytest.raises(OSError, match=r"No space left on device: .*other'"):
        Journal(tmp_path / "other")
    monkeypatch.undo()
    with Journal(path) as journal:
        failing(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            journal.append({"first": 1})
        monkeypatch.undo()
        journal.append({"first": 1})  # over what was left of it
        failing(full)
        with pytest.warns(UserWarning, match=r"could not be written \(No space left on device\)"):
            journal.append({"second": 2})
        monkeypatch.undo()
        journal.append({"third": 3})  # told once, and nothing more is written
        assert journal.records == [{"first": 1}]
    assert path.read_bytes().endswith(b'{"first": 1}\n')
    assert read(path) == [{"first": 1}]
