"""The script with which users report how Lanista does on their Windows (`report.ps1`)."""

import re
from pathlib import Path

import pytest
from lanista.trainers.cli.main import _parsers
from lanista.trainers.settings import parse_command_line
from pygments.lexers import PowerShellLexer
from pygments.token import Comment, Error, Literal, Punctuation

ROOT = Path(__file__).parents[2]
SCRIPT = (
    Path(__file__).with_name("report.ps1").read_text(encoding="ascii")
)  # Windows PowerShell reads no UTF-8
YAML = re.findall(r"@'\n(.+?)\n'@", SCRIPT, re.DOTALL)
STARTED = re.compile(r'"\$programs\\(?P<program>[\w-]+)\.exe" (?:@\((?P<list>.+)\)|\$(?P<name>\w+))')


def commands():
    """The program and the arguments of each command of an environment's folder `Scripts`."""
    for line in STARTED.finditer(SCRIPT):
        given = line["list"] or re.search(rf"^\${line['name']} = @\((.+)\)$", SCRIPT, re.MULTILINE)[1]
        yield line["program"], re.findall(r"'([^']*)'", given)


@pytest.mark.parametrize(("program", "arguments"), list(commands()))
def test_each_command_is_there_and_takes_its_arguments(program, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "basic.yaml").write_text(YAML[0], encoding="ascii")
    if program == "pip":
        assert arguments[-3:] == ["-c", "constraints.txt", "."] and (ROOT / arguments[-2]).is_file()
    elif program == "lanista":
        _, own = _parsers(arguments[0])
        own.parse_args(arguments[1:])
    else:
        assert program == "lanista-learn"
        assert "Basic" in parse_command_line(arguments).behaviors


def test_the_commands_are_those_of_a_first_day():
    started = [(program, *arguments) for program, arguments in commands()]
    words = " ".join(" ".join(words) for words in started)
    for step in ("pip install", "lanista doctor", "lanista-learn", "--resume", "lanista play"):
        assert step in words
    assert "Stop-Process" in SCRIPT and len(YAML) == 1


def test_its_text_is_whole():
    """Quotes and brackets are closed; what Windows PowerShell 5.1 lacks is not used."""
    tokens = [token for token in PowerShellLexer().get_tokens(SCRIPT) if token[0] not in Comment]
    assert not [value for kind, value in tokens if kind is Error]
    signs = "".join(value for kind, value in tokens if kind in Punctuation and kind not in Literal)
    for opened, closed in ("()", "{}", "[]"):
        assert signs.count(opened) == signs.count(closed)
    assert "&&" not in SCRIPT and "??" not in SCRIPT


def test_what_names_a_user_or_a_computer_is_replaced_before_it_is_kept():
    private = {"USERPROFILE", "COMPUTERNAME", "USERDOMAIN", "USERNAME"}
    (line,) = (line for line in SCRIPT.splitlines() if "foreach ($private" in line)
    assert set(re.findall(r"\$env:(\w+)", SCRIPT)) == set(re.findall(r"\$env:(\w+)", line)) == private
    assert "$folder" in line and "$clone" in line
    assert SCRIPT.count("$lines.Add(") == 1, "each line of the page passes Add-Line"
    assert not re.search(r"hostname|MachineName|Invoke-WebRequest|Invoke-RestMethod", SCRIPT, re.IGNORECASE)


def test_the_issue_template_and_the_page_name_it():
    template = (ROOT / ".github" / "ISSUE_TEMPLATE" / "windows-report.md").read_text(encoding="utf-8")
    header = template.split("---\n")[1]
    assert {line.partition(":")[0] for line in header.splitlines()} >= {"name", "about"}
    for text in (template, (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")):
        assert "tests\\windows\\report.ps1" in text
