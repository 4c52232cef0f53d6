"""The programs in Python of the book's chapters."""

import pathlib
import subprocess
import sys

import pytest

CHAPTERS = pathlib.Path(__file__).parents[2] / "book" / "src"
PROGRAMS = {
    f"{chapter.stem}-{number}": part.split("```")[0]
    for chapter in sorted(CHAPTERS.glob("*.md"))
    for number, part in enumerate(chapter.read_text().split("```python\n")[1:])
}


def test_the_book_has_programs_in_python():
    assert len(PROGRAMS) >= 9


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_of_the_book_run(name, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[name])
    outcome = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (outcome.returncode, outcome.stderr) == (0, "")
