"""The tools for whoever changes the code know the package and the tests as they are."""

from __future__ import annotations

import re

from tests.tools.mutants import AROUND, COSTS, PACKAGE, ROOT, TESTS, folder_tests, folders


def test_every_folder_has_tests_and_no_exemption_is_of_a_file_that_left():
    assert AROUND | set(TESTS) <= set(folders())
    for folder in folders():
        for path in folder_tests(PACKAGE / folder):
            assert (ROOT / path).exists(), (folder, path)
    files = [path.as_posix() for path in (ROOT / PACKAGE).rglob("*.py")]
    for where, _ in COSTS:
        for part in where.split("|") if "(" not in where else [where]:
            assert any(re.search(part, file) for file in files), part
