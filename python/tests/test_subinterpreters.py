"""Interpreters beside the main one, in one process: refused with an exception, and the main one goes on."""

import subprocess
import sys

import pytest

CODE = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import sys
{before}
number = interpreters.create()
code = '''
import sys
sys.path[:] = {path!r}
try:
    import arrow_device
except ImportError as error:
    text = str(error)
    print("refused:", text)
else:
    print("imported", arrow_device.array([1, None, 3]).to_pylist())
'''
interpreters.{run}(number, code)
sys.stdout.flush()
interpreters.destroy(number)
import arrow_device as ad
assert ad.array([1, None, 3]).to_pylist() == [1, None, 3]
assert ad.array([1], device="ext_dev:0").to_host().to_pylist() == [1]
print("main goes on")
"""


@pytest.mark.parametrize("before", ["", "import arrow_device as first; kept = first.array([1, 2])"], ids=["first", "second"])
def test_another_interpreter_is_refused_and_the_main_one_goes_on(before):
    run = "run_string" if sys.version_info < (3, 13) else "exec"
    code = CODE.format(before=before, path=sys.path, run=run)
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    refused, main = outcome.stdout.splitlines()
    assert refused.startswith("refused:") and "subinterpreters" in refused
    assert main == "main goes on"
