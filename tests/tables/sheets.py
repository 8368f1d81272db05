# ruff: noqa: E501 (XML has long lines)
"""A writer of small .xlsx and .ods files, as far as tests need one."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font/></fonts><fills count="1"><fill/></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/><xf numFmtId="21" applyNumberFormat="1"/></cellXfs></styleSheet>'
)


class Raw(str):
    """The XML of a cell from its attributes to its end."""


def write_xlsx(path: Path, sheets: dict[str, list[list[Any]]], merged: str | None = None) -> Path:
    """Sheets of rows of None, text, numbers, booleans and moments; `merged` is a range of the first."""
    names = list(sheets)
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i + 1}.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.worksheet+xml"/>'
        for i in range(len(names))
    )
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i + 1}" r:id="rId{i + 1}"/>'
        for i, name in enumerate(names)
    )
    related = "".join(
        f'<Relationship Id="rId{i + 1}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{i + 1}.xml"/>'
        for i in range(len(names))
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
        'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.'
        f'openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{related}'
        f'<Relationship Id="rIdS" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": _STYLES,
    }
    for i, rows in enumerate(sheets.values()):
        cells = "".join(
            f'<row r="{r + 1}">{"".join(_cell(r, c, v) for c, v in enumerate(row))}</row>'
            for r, row in enumerate(rows)
        )
        joined = (
            f'<mergeCells count="1"><mergeCell ref="{merged}"/></mergeCells>'
            if merged and i == 0
            else ""
        )
        files[f"xl/worksheets/sheet{i + 1}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{cells}</sheetData>{joined}</worksheet>'
        )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return path


def _cell(row: int, column: int, value: Any) -> str:
    place = f"{chr(65 + column)}{row + 1}"
    if value is None:
        return ""
    if isinstance(value, Raw):
        return f'<c r="{place}" {value}</c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.datetime):
        days = (value - datetime.datetime(1899, 12, 30)) / datetime.timedelta(days=1)
        return f'<c r="{place}" s="1"><v>{days!r}</v></c>'
    if isinstance(value, datetime.time):
        of_day = datetime.datetime.combine(datetime.date(1899, 12, 31), value) - datetime.datetime(1899, 12, 31)
        return f'<c r="{place}" s="2"><v>{of_day / datetime.timedelta(days=1)!r}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'
