#!/usr/bin/env python3
"""Lists comments, docstrings and pages that break the rules of style that a program can check.

It reads the named files, or all tracked Rust, Python, P4, protobuf and Markdown files. It prints FILE:LINE with a
remedy for each place, and fails if there is one. Code in backquotes, code blocks, generated files and files of other
projects are exempt.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".rs", ".py", ".p4", ".proto", ".md")
# Generated files, and the files of other projects.
EXEMPT = ("/generated/", "/p4runtime/proto/")
# The longest first line of a doc comment, in characters. Documentation and `--help` show it as a summary.
SUMMARY_LIMIT = 100

# Phrases, with remedies. A space in a phrase also stands for a line break.
BANNED = {
    r"\b(whoever|whom|nobody|somebody)\b": "name the actor: worker, agent, switch, server, controller, caller",
    r"\banew\b": "write: again",
    r"\bfor good\b": "write: permanently",
    r"\bin vain\b": "write: without success",
    r"\bmend(s|ed|ing)?\b": "write: fix, repair",
    r"(?<!\bthere\s)\b(is|are|was|were) no (?!longer\b|more\b|less\b|\w+er\b)": "write: is not a ..., has no ...",
    r"\b(is|are|was|were) to be\b": "write: must, should, will",
    r"\b(is|are|was|were|be|been|being) (told|heard of|given up)\b": "name the actor, in the active voice",
    r"\bone's\b": "repeat the noun",
    r"\bso many\b(?! (as|that)\b)": "write the number or its limit",
}
RULES = [(re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE), remedy) for phrase, remedy in BANNED.items()]
OPENING = re.compile(r"\W*(what|how|whether|those|of)\b", re.IGNORECASE)
COMMENT = re.compile(r"\s*(//[/!]?)(?!/)\s?(.*)")
# Names in code and the targets of links are not prose.
NOT_PROSE = re.compile(r"`[^`]*`|(?<=\])\([^)]*\)")
FENCE = re.compile(r"\s*(```|~~~)")


class Block(NamedTuple):
    """Successive lines of prose; `is_doc` if they document an item."""

    line: int
    text: str
    is_doc: bool = False


def blocks(lines: Iterable[tuple[int, str, str]]) -> Iterator[Block]:
    """Joins lines, given as (number, kind, text), that follow each other and are of one kind; drops code blocks."""
    first, kind, texts, is_code = 0, "", [], False
    for number, kind_of_line, text in [*lines, (0, "", "")]:
        if (number, kind_of_line) != (first + len(texts), kind):
            yield Block(first, "\n".join(texts), kind in ("///", "//!"))
            first, kind, texts, is_code = number, kind_of_line, [], False
        is_fence = FENCE.match(text) is not None
        is_code ^= is_fence
        texts.append("" if is_code or is_fence else text)


def docstrings(text: str) -> Iterator[Block]:
    """Returns the docstrings of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield Block(node.body[0].lineno, docstring, is_doc=True)


def prose(path: Path) -> Iterator[Block]:
    """Returns the prose of a file."""
    text = path.read_text(encoding="utf-8")
    lines = enumerate(text.splitlines(), 1)
    if path.suffix == ".md":
        yield from blocks((number, "page", line) for number, line in lines)
    elif path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = (token for token in tokens if token.type == tokenize.COMMENT)
        yield from blocks((token.start[0], "#", token.string) for token in comments)
        yield from docstrings(text)
    else:
        matches = ((number, found) for number, line in lines if (found := COMMENT.match(line)))
        # All comments of a protobuf file document the item behind them.
        is_proto = path.suffix == ".proto"
        yield from blocks((number, "///" if is_proto else found[1], found[2]) for number, found in matches)


def faults(block: Block, suffix: str) -> Iterator[tuple[int, str]]:
    """Returns the faults of a block, each with its line."""
    summary = block.text.partition("\n")[0]
    if block.is_doc and (opening := OPENING.match(summary)):
        yield block.line, f"opens with {opening[1]!r}: begin with a verb or a noun"
    if block.is_doc and suffix in (".rs", ".proto") and len(summary) > SUMMARY_LIMIT:
        yield block.line, f"the first line has {len(summary)} characters: shorten it to {SUMMARY_LIMIT}"
    # The lines keep their numbers.
    text = NOT_PROSE.sub(lambda code: "_" + "\n" * code[0].count("\n"), block.text)
    for phrase, remedy in RULES:
        for found in phrase.finditer(text):
            yield block.line + text.count("\n", 0, found.start()), f"{' '.join(found[0].split())!r}: {remedy}"


def tracked() -> list[Path]:
    """Returns the files that are checked without arguments."""
    command = ["git", "ls-files", "-z", *(f"*{suffix}" for suffix in SUFFIXES)]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    own = (name for name in names if name and not any(part in name for part in EXEMPT))
    # The index still lists files that were deleted in the working tree.
    return [ROOT / name for name in own if (ROOT / name).exists()]


def main() -> int:
    """Prints the faults; returns 1 if there are any."""
    paths = [Path(argument) for argument in sys.argv[1:]] or tracked()
    found = [(path, *fault) for path in paths for block in prose(path) for fault in faults(block, path.suffix)]
    for path, line, fault in sorted(found):
        print(f"{os.path.relpath(path)}:{line}: {fault}")
    if found:
        print(f'{len(found)} places do not follow "Prose" in CONTRIBUTING.md.', file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
