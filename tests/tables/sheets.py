"""A writer of small .xlsx files, as far as python-calamine reads them."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATED = "http://schemas.openxmlformats.org/package/2006/relationships"
_STYLES = '<xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/><xf numFmtId="21"/>'
_EPOCH = datetime.datetime(1899, 12, 30)
_DAY = datetime.timedelta(days=1)


class Raw(str):
    """The XML of a cell from its attributes to its end."""


def write_xlsx(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    """Sheets of rows of None, text, numbers, booleans, moments and times of day."""
    places = {name: f"worksheets/sheet{number}.xml" for number, name in enumerate(sheets)}
    listed = "".join(f'<sheet name="{escape(one)}" r:id="{places[one]}"/>' for one in sheets)
    listed = f"<sheets>{listed}</sheets>"
    related = "".join(
        f'<Relationship Id="{place}" Type="{_OFFICE}/worksheet" Target="{place}"/>'
        for place in places.values()
    )
    files = {
        "_rels/.rels": f'<Relationships xmlns="{_RELATED}"><Relationship Id="book" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">{listed}</workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_RELATED}">{related}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs>{_STYLES}</cellXfs></styleSheet>',
    }
    for name, rows in sheets.items():
        cells = ""
        for r, row in enumerate(rows, start=1):
            written = "".join(
                _cell(f"{'A' * (c > 25)}{chr(65 + c % 26)}{r}", value) for c, value in enumerate(row)
            )
            cells += f'<row r="{r}">{written}</row>'
        files[f"xl/{places[name]}"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{cells}</sheetData></worksheet>'
        )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return path


def _cell(place: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Raw):
        return f'<c r="{place}" {value}</c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    style = 0
    if isinstance(value, datetime.datetime):
        style = 1
        value = (value.replace(tzinfo=None) - _EPOCH) / _DAY
    elif isinstance(value, datetime.date):
        style = 1
        value = (value - _EPOCH.date()).days
    elif isinstance(value, datetime.time):
        style = 2
        value = (datetime.datetime.combine(_EPOCH, value) - _EPOCH) / _DAY
    return f'<c r="{place}" s="{style}"><v>{value}</v></c>'
