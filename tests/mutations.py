"""Changes one line of the product at a time and sees whether the tests notice.

    .venv/bin/pytest -q -n 2 -m "not peer" -p lines_of_tests --junitxml=tests.xml
    python tests/mutations.py --count 300 --seed 0 --table before.csv     # draws mutations and tries them
    python tests/mutations.py --again before.csv --table after.csv        # tries the same on another state
    python tests/mutations.py --count 300 --draw --table drawn.csv        # only draws them

The first line notes which tests run each line (`tests/lines_of_tests.py`). A mutation replaces an operator, a
constant or a condition of one line that some test runs. It is caught if one of the tests that run the line
fails, or does not end. `--again` finds each mutated line of a table by its text, in whichever file it stands
now; a line that is gone or stands in several places is reported so, and one that survived is not tried again.
With `--times tests.xml` the fastest tests come first; `--shard 0/2` tries every second one, and another clone
the rest.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import CodeType
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
FLOORS = ("envs", "agent_processor", "trainers")
LINES = ROOT / ".cache" / "lines"
"""What `tests/lines_of_tests.py` wrote."""
MOST_TESTS = 40
"""Of the tests that run a line, the fastest if times are known; a mutation that these miss survives."""
TIMEOUT = 300.0
"""Seconds after which the tests of a mutation count as hanging."""

SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Mutation:
    """One changed line."""

    file: str
    line: int
    before: str
    after: str
    outcome: str = ""
    """caught, survived, gone, ambiguous, unrun (no test runs it); empty if it was not tried."""


def mutations_of(path: Path) -> Iterator[Mutation]:
    """Every mutation of a file that stays within one line."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        for start, end, new in _edits(node, lines):
            line = lines[node.lineno - 1]  # type: ignore[attr-defined]
            changed = line[:start] + new + line[end:]
            yield Mutation(path.relative_to(ROOT).as_posix(), node.lineno, line, changed)  # type: ignore[attr-defined]


def _edits(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Columns [start, end) of the node's first line, and what replaces them."""
    if getattr(node, "lineno", None) is None or node.lineno != node.end_lineno:  # type: ignore[attr-defined]
        return
    line = lines[node.lineno - 1]  # type: ignore[attr-defined]
    if not line.isascii():  # ast counts bytes
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield node.left.end_col_offset, node.comparators[0].col_offset, f" {SWAPS[type(node.ops[0])]} "
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        between = line[node.left.end_col_offset : node.right.col_offset]
        if not set(between) & set("()"):
            yield node.left.end_col_offset, node.right.col_offset, f" {SWAPS[type(node.op)]} "
    elif isinstance(node, ast.BoolOp):
        first, second = node.values[:2]
        if not set(line[first.end_col_offset : second.col_offset]) & set("()"):
            yield first.end_col_offset, second.col_offset, f" {SWAPS[type(node.op)]} "
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        if "(" not in line[node.col_offset : node.operand.col_offset]:
            yield node.col_offset, node.operand.col_offset, ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node.col_offset, node.end_col_offset, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield node.col_offset, node.end_col_offset, repr(node.value + 1)


def draw(count: int, seed: int, tests: dict[str, dict[int, list[str]]]) -> list[Mutation]:
    """Mutations of lines that tests run, sampled without replacement."""
    every = [
        mutation
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*.py"))
        for mutation in mutations_of(path)
        if tests.get(mutation.file, {}).get(mutation.line)
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def seconds_of_tests(path: Path) -> dict[str, float]:
    """How long each test took, from a file that `--junitxml` wrote."""
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 0))
        for case in ElementTree.parse(path).iter("testcase")
    }


def tests_of_lines(seconds: dict[str, float]) -> dict[str, dict[int, list[str]]]:
    """The tests of each line that ran, fast ones first; none if it ran at imports alone."""
    found: dict[str, dict[int, list[str]]] = {}
    for path in sorted(LINES.glob("*.json")):
        noted = json.loads(path.read_text(encoding="utf-8"))
        for file, lines in noted["files"].items():
            for number, numbers in lines.items():
                tests = found.setdefault(file, {}).setdefault(int(number), [])
                tests += [noted["tests"][n] for n in numbers]
    for lines in found.values():
        for tests in lines.values():
            tests.sort(key=lambda test: (seconds.get(test, 0.0), test))
    return found


def lines_that_ran(tests: dict[str, dict[int, list[str]]]) -> tuple[int, int]:
    """How many lines of the product the tests' own processes ran, and how many there are."""
    ran = every = 0
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
            lines = set(_executable(code))
            every += len(lines)
            ran += len(lines & set(tests.get(path.relative_to(ROOT).as_posix(), {})))
    return ran, every


def _executable(code: CodeType) -> Iterator[int]:
    """The lines of a code object and of those within it."""
    yield from (number for _start, _end, number in code.co_lines() if number)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable(constant)


def find(mutation: Mutation) -> Mutation:
    """The same change where its line stands today."""
    places = [
        (path, number)
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip() == mutation.before.strip()
    ]
    if len(places) != 1:
        outcome = "ambiguous" if places else "gone"
        return Mutation(mutation.file, mutation.line, mutation.before, mutation.after, outcome)
    path, number = places[0]
    line = path.read_text(encoding="utf-8").splitlines()[number - 1]
    indent = line[: len(line) - len(line.lstrip())]
    return Mutation(path.relative_to(ROOT).as_posix(), number, line, indent + mutation.after.strip())


def attempt(mutation: Mutation, tests: list[str]) -> str:
    """Change the line, run the tests, change it back: caught or survived."""
    if not tests:
        return "unrun"
    path = ROOT / mutation.file
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.after + "\n"
    path.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests[:MOST_TESTS]]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=TIMEOUT, check=False)
        return "survived" if ended.returncode == 0 else "caught"
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Try the mutations, and write the table after each of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true", help="write the table without trying")
    parser.add_argument("--again", type=Path, help="a table whose mutations are tried on this state")
    parser.add_argument("--table", type=Path, default=Path("mutations.csv"))
    parser.add_argument("--times", type=Path, help="how long tests take, as --junitxml writes it")
    parser.add_argument("--shard", default="0/1", help="I/N: every Nth mutation, from the Ith on")
    args = parser.parse_args()
    tests = tests_of_lines(seconds_of_tests(args.times) if args.times else {})
    if args.again:
        rows = csv.DictReader(args.again.open(encoding="utf-8"))
        known = [Mutation(**{**row, "line": int(row["line"])}) for row in rows]  # type: ignore[arg-type]
        wanted = [find(mutation) for mutation in known if mutation.outcome in ("", "caught")]
    else:
        wanted = draw(args.count, args.seed, tests)
    ran, every = lines_that_ran(tests)
    print(f"{ran:,} of {every:,} lines ran in the tests' own processes ({ran / every:.2%})", flush=True)
    first, step = map(int, args.shard.split("/"))
    wanted = wanted[first::step]
    with args.table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Mutation)])
        writer.writeheader()
        for mutation in wanted:
            outcome = mutation.outcome
            if not outcome and not args.draw:
                outcome = attempt(mutation, tests.get(mutation.file, {}).get(mutation.line, []))
            writer.writerow({**asdict(mutation), "outcome": outcome})
            file.flush()
            print(f"{outcome:9s} {mutation.file}:{mutation.line}: {mutation.after.strip()}", flush=True)


if __name__ == "__main__":
    main()
