"""docs/tiles.md names every public type and operation of the tile level, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = (_ROOT / "docs" / "tiles.md").read_text()
_FOLDERS = [_ROOT / "cpp" / "include" / "tk" / folder for folder in ("tile", "arch/sm90")]
# of other pages, and of CuTe's namespace
_ELSEWHERE = {"bank_conflicts.hpp", "launch.hpp", "wgmma_wide.hpp"}

_NAMESPACE = re.compile(r"(?:inline )?namespace (\w+) \{")
_OPERATIONS = re.compile(r"struct (\w+_ops|mma_words|warp_products)\b")
_FUNCTION = re.compile(r"(?:TK_DEVICE|TK_HOST_DEVICE) (?:constexpr )?[\w:&<>,* ]*?(\w+)\(")
_TYPE = re.compile(r"(?:struct|using|concept|enum class) (?:alignas\(\d+\) )?(\w+)\b(?!;)")


def names_of_headers() -> set[str]:
    """What a user may name: members of the operations' structures, and what is in no `detail`."""
    found = set()
    headers = [path for folder in _FOLDERS for path in sorted(folder.glob("*.hpp"))]
    for header in headers:
        if header.name in _ELSEWHERE:
            continue
        spaces: list[str] = []
        operations = False
        for line in header.read_text().splitlines():
            if match := _NAMESPACE.match(line):
                spaces.append(match[1])
            elif line.startswith("}  // namespace"):
                spaces.pop()
            elif _OPERATIONS.match(line):
                operations = True
            elif line.startswith("};") or line == "  private:":
                operations = False
            elif operations and line.startswith("    static "):
                if match := _FUNCTION.match(line.removeprefix("    static ")):
                    found.add(match[1])
            elif "detail" not in spaces and (match := _FUNCTION.match(line) or _TYPE.match(line)):
                found.add("::".join([*spaces, match[1]]))
    return found


def names_of_page() -> set[str]:
    """What stands in the first column of the tables headed "name"."""
    found = set()
    for table in re.findall(r"^\| name \|.*\n\| ---.*\n((?:\|.*\n)+)", _PAGE, re.MULTILINE):
        for row in table.splitlines():
            found |= set(re.findall(r"`([\w:]+)`", row.split("|")[1]))
    return found


def test_headers_are_read_as_meant() -> None:
    assert {"row_max", "tma::load_async", "rt_bf", "mma_ABt", "cluster::sync"} <= names_of_headers()


def test_every_public_name_is_documented() -> None:
    assert names_of_headers() - names_of_page() == set()


def test_every_documented_name_exists() -> None:
    assert names_of_page() - names_of_headers() == set()
