"""Run the code blocks of a page, and compare what they print with the blocks of text behind them."""

import contextlib
import io
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from spacy.cli._util import app as spacy_app
from typer.testing import CliRunner

from tacenda.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for folder in (".", "docs", "docs/results", "packages/*")
    for page in ROOT.glob(f"{folder}/*.md")
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"\n\s*```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ((?:src|tests)/\S+\.py)\n")
NUMBER = re.compile(r"[-+−]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?")
DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min|h|seconds?|minutes?|hours?)\b")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?\S*)?")
CUT = "..."
ANSI = re.compile(r"\x1b\[[0-9;]*m")  # colors


class Block(NamedTuple):
    """A block of code, where it ends in the page, and the block of text that follows."""

    language: str
    code: str  # below as many empty lines as there are above it in the page, for tracebacks
    end: int
    output: str | None
    output_end: int


def read_blocks(page):
    text = page.read_text(encoding="utf8")
    for match in BLOCK.finditer(text):
        above = "\n" * (text[: match.start()].count("\n") + 1)
        shown = OUTPUT.match(text, match.end())
        output, end = (shown[1], shown.end()) if shown else (None, match.end())
        yield Block(match[1], above + match[2], match.end(), output, end)


def run_page(page, names):
    """Run the blocks of a page in order; yield each that is run, with what it printed."""
    for block in read_blocks(page):
        if block.language == "console":
            yield block, run_commands(block.code)
        elif block.language == "python" and not FILE.match(block.code.lstrip()):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.code, str(page), "exec"), names)
            yield block, tidy(printed.getvalue())


def run_commands(code):
    lines = code.replace("\\\n", " ").splitlines()
    return tidy("".join(run_command(line[2:]) for line in lines if line.startswith("$ ")))


def run_command(line):
    program, *arguments = shlex.split(line)
    if program == "tacenda":
        done = CliRunner().invoke(app, arguments, prog_name="tacenda", terminal_width=80)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        return done.stdout
    if (program, *arguments[:2]) == ("python", "-m", "spacy"):  # starting it anew takes seconds
        done = CliRunner().invoke(spacy_app, arguments[2:], prog_name="spacy", terminal_width=80)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        return ANSI.sub("", done.stdout)
    program = sys.executable if program == "python" else program
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def tidy(printed):
    """Return a text without what the page could not show: spaces at ends of lines, empty lines around it."""
    lines = [line.rstrip() for line in printed.replace(str(Path.cwd()), ".").splitlines()]
    text = "\n".join(lines).strip("\n")
    return text + "\n" if text else ""


def agree(shown, printed):
    """Whether a page shows what was printed.

    Spaces do not count, nor do times and dates. Whole numbers must be the same, and others to within three
    in a hundred, as much as training in many small steps differs between processors. A line of three dots stands
    for any number of lines.
    """
    if shown is None:
        return not printed
    pieces = [piece.splitlines() for piece in re.split(r"^ *\.\.\. *\n", shown, flags=re.MULTILINE)]
    head, *rest = pieces
    lines = printed.splitlines()
    if not rest:
        return same_lines(head, lines)
    tail = rest.pop()
    if len(lines) < len(head) + len(tail):
        return False
    middle = lines[len(head) : len(lines) - len(tail)]
    return (
        same_lines(head, lines[: len(head)])
        and same_lines(tail, lines[len(lines) - len(tail) :])
        and all(same_somewhere(piece, middle) for piece in rest)
    )


def same_somewhere(piece, lines):
    return any(
        same_lines(piece, lines[start : start + len(piece)]) for start in range(len(lines) + 1)
    )


def same_lines(shown, printed):
    shown, printed = ("\n".join(lines) for lines in (shown, printed))
    for pattern in (DATE, DURATION):
        shown, printed = pattern.sub("#", shown), pattern.sub("#", printed)
    # the rules of tables are as long as their columns are wide
    words = [
        re.sub(r"[-=─━]{2,}", "--", NUMBER.sub(" 0 ", text)).split() for text in (shown, printed)
    ]
    numbers = [NUMBER.findall(text) for text in (shown, printed)]
    return words[0] == words[1] and all(map(same_number, *numbers))


def same_number(shown, printed):
    first, second = (float(text.replace(",", "").replace("−", "-")) for text in (shown, printed))
    if not set(".e") & set(shown + printed):
        return first == second
    return math.isclose(first, second, rel_tol=0.03, abs_tol=0.015)


def write_outputs(page, runs):
    """Put what the blocks printed into the page, where it shows something else or nothing."""
    text = page.read_text(encoding="utf8")
    for block, printed in reversed(runs):
        if not agree(block.output, printed):
            shown = f"\n\n```text\n{cut_alike(block.output or '', printed)}```" if printed else ""
            text = text[: block.end] + shown + text[block.output_end :]
    page.write_text(text, encoding="utf8")


def cut_alike(shown, printed):
    """Return what was printed, cut where the page had cut what it showed before."""
    before, dots, after = shown.partition(f"{CUT}\n")
    n_head, n_tail = before.count("\n"), after.count("\n")
    lines = printed.splitlines(keepends=True)
    if not dots or len(lines) <= n_head + n_tail:
        return printed
    return "".join([*lines[:n_head], f"{CUT}\n", *lines[len(lines) - n_tail :]])
