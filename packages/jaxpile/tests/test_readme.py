"""The README runs, and its table is that of the registry."""

from __future__ import annotations

import re

from jaxpile.table import table


def test_the_example_runs(jaxpile_package, capsys):
    text = (jaxpile_package / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    # JAX asks for the lines of functions, so the code needs a file name of its own
    exec(compile("\n".join(blocks), "README.md", "exec"), {})
    assert "for " in capsys.readouterr().out


def test_the_table_is_current(jaxpile_package):
    text = (jaxpile_package / "README.md").read_text()
    found = re.search(r"<!-- table -->\n(.*)<!-- /table -->", text, re.S)
    assert found and found[1] == table(), "python -m jaxpile.table prints what belongs there"
