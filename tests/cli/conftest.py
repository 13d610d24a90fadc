import sys
from pathlib import Path

import pytest

from bayesdice_ppl import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command as the terminal does: its exit code and what it wrote."""

    def run(*words):
        split = [
            part
            for word in words
            for part in ([word] if isinstance(word, Path) else str(word).split())
        ]
        monkeypatch.setattr(sys, "argv", ["bayesdice", *map(str, split)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, capsys.readouterr()

    return run
