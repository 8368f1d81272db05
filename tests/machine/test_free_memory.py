"""Free memory: what the machine, its containers and the shell leave to this process."""

import subprocess
import sys

import pytest

import onefold.machine.memory as memory
from onefold.machine.memory import available_memory, require_memory

GB = 10**9


def _tree(tmp_path, cgroup, mountinfo, files):
    """A made-up /proc and trees of control groups; returns that /proc."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(cgroup)
    (tmp_path / "proc" / "self" / "mountinfo").write_text(mountinfo.replace("TREE", str(tmp_path)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path / "proc"


V2 = "41 31 0:38 / TREE/unified rw,relatime - cgroup2 cgroup2 rw\n"
V1 = "35 31 0:32 / TREE/memory rw,relatime - cgroup cgroup rw,memory\n"

MOUNTED = V1.replace(" / TREE", " /docker/abc TREE")
NESTED = {
    "unified/outer/memory.max": 5 * GB,
    "unified/outer/memory.current": 3 * GB,
    "unified/outer/memory.stat": f"anon 1\ninactive_file {GB // 2}\nactive_file 7",
    "unified/outer/inner/memory.max": "max",
    "unified/outer/inner/memory.high": 4 * GB,
    "unified/outer/inner/memory.current": GB,
}
FIRST = {
    "memory/job/memory.limit_in_bytes": 2 * GB,
    "memory/job/memory.usage_in_bytes": GB,
    "memory/job/memory.stat": f"total_inactive_file {GB // 4}",
    "memory/memory.limit_in_bytes": 2**63 - 4096,  # no limit
    "unified/memory.current": GB,
}
OWN = {"memory/memory.limit_in_bytes": GB, "memory/memory.usage_in_bytes": 0}
ABOVE = {"unified/memory.max": GB, "unified/memory.current": 2 * GB}


@pytest.mark.parametrize(
    ("group", "mounts", "files", "least"),
    [
        # The outer group has 5 − (3 − ½) left: files that nobody uses are given back when asked for.
        ("0::/outer/inner\n", V2, NESTED, 5 * GB - 3 * GB + GB // 2),
        ("4:memory:/job\n1:cpu:/other\n0::/\n", V1 + V2, FIRST, 2 * GB - GB + GB // 4),
        ("4:memory:/docker/abc\n", MOUNTED, OWN, GB),  # sees its own part of the tree
        ("4:memory:/../../elsewhere\n", MOUNTED, OWN, GB),
        ("0::/\n", V2, ABOVE, 0),
    ],
    ids=["nested", "both versions", "container", "elsewhere", "above the limit"],
)
def test_groups(tmp_path, group, mounts, files, least):
    assert min(memory._groups(_tree(tmp_path, group, mounts, files))) == least
    assert list(memory._groups(tmp_path / "nowhere")) == []


def test_the_least_of_all_counts_and_nothing_known_is_none(monkeypatch):
    for name, left in (("_system", [7]), ("_groups", [5, 6]), ("_limits", [])):
        monkeypatch.setattr(memory, name, lambda left=left: iter(left))
    assert available_memory() == 5
    with pytest.raises(MemoryError, match=r"a thing needs .* are free; do less"):
        require_memory(6, "a thing", "do less")
    require_memory(5, "a thing", "do less")
    for name in ("_system", "_groups"):
        monkeypatch.setattr(memory, name, lambda: iter(()))
    assert available_memory() is None
    require_memory(10**20, "a thing", "do less")


@pytest.mark.parametrize("name", [b"\xfcsb", "a\u2028b".encode(), b"a\x1cb", b"a\x85b"])
def test_mount_points_with_any_name(tmp_path, name):
    """A name that is not UTF-8 ended every fit, and one with a separator the look for tmpfs."""
    proc = _tree(tmp_path, "0::/job\n", V2, {"unified/job/memory.max": GB})
    with (proc / "self" / "mountinfo").open("ab") as file:
        file.write(b"43 31 0:40 / /media/%s rw - vfat x rw\n" % name)
        file.write(b"44 31 0:41 / %s rw - tmpfs x rw\n\n45 31\n" % bytes(tmp_path))
    assert list(memory._groups(proc)) == [GB]
    assert memory.lies_in_memory(tmp_path / "job", proc)


def test_folders_whose_files_are_kept_in_memory(tmp_path):
    """Rows were written to /tmp to spare memory, also where /tmp is memory."""
    mounts = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 22 0:26 / TREE/a\\040folder rw,nosuid shared:1 - tmpfs tmpfs rw\n"
        "31 30 8:2 / TREE/a\\040folder/disk rw - ext4 /dev/sda2 rw\n"
    )
    proc = _tree(tmp_path, "", mounts, {"a folder/disk/deep/file": "", "a folder/deep/file": ""})
    (tmp_path / "link").symlink_to(tmp_path / "a folder")
    found = {
        name: memory.lies_in_memory(tmp_path / name, proc)
        for name in (
            ".",
            "a folder",
            "a folder/deep",
            "a folder/disk",
            "a folder/disk/deep",
            "link/deep",
        )
    }
    assert [name for name, inside in found.items() if inside] == [
        "a folder",
        "a folder/deep",
        "link/deep",
    ]
    assert not memory.lies_in_memory(tmp_path, tmp_path / "nowhere")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are enforced on Linux")
@pytest.mark.parametrize("kind", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_of_the_shell_is_seen_and_refuses_what_would_break_it(kind):
    program = f"""
import resource
import numpy as np
from onefold import LSSVR, plan
from onefold.machine.memory import available_memory
from onefold.machine.memory import read_field
from pathlib import Path
field = "VmSize:" if "{kind}" == "RLIMIT_AS" else "VmData:"
used = 1024 * read_field(Path("/proc/self/status"), field)
resource.setrlimit(resource.{kind}, (used + 600_000_000,) * 2)
print(400_000_000 < available_memory() <= 600_000_000)
X = np.zeros((9000, 1))
print(plan(LSSVR(), X).fits)
try:
    LSSVR().fit(X, X[:, 0])
except MemoryError as error:
    print("9000 rows needs" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]
