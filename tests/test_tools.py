"""The tools for whoever changes the code know the package and the tests as they are."""

from __future__ import annotations

import ast
import re

from tests.tools.mutants import AROUND, COSTS, PACKAGE, ROOT, TESTS, room_tests, rooms
from tests.tools.mutation_sites import changed, changes


def test_every_room_has_tests_and_no_exemption_is_of_a_file_that_left():
    assert AROUND | set(TESTS) <= set(rooms())
    for room in rooms():
        for path in room_tests(PACKAGE / room):
            assert (ROOT / path).exists(), (room, path)
    files = [path.as_posix() for path in (ROOT / PACKAGE).rglob("*.py")]
    for where, _ in COSTS:
        for part in where.split("|") if "(" not in where else [where]:
            assert any(re.search(part, file) for file in files), part


def test_every_change_is_a_program_of_its_own():
    source = """def f(a: int = 1, *b):
    '''Text 2.'''
    if not a and -a < 2.0 or f"{a + 1}" + "x":
        a += max(a, b)
    return g(a, b) if x.sum() is None else [k ** True for k in b]
"""
    found = {changed(source, number) for number, _ in enumerate(changes(source))} | {changed(source)}
    assert len(found) == len(list(changes(source))) + 1 == 18
    for text in found:
        ast.parse(text)
