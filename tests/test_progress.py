"""What takes long says what it does: on a terminal, after a while, and never elsewhere."""

import io
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import pytest
from rich.console import Console

from bayesdice_ppl import progress
from bayesdice_ppl.progress import parts, silent, stage


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that is written to at once."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    monkeypatch.setattr(progress._DISPLAY, "console", console)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    return stream


def seen(stream, text):
    """Wait until a text was written: the display has a thread of its own."""
    for _ in range(500):
        if text in stream.getvalue():
            return True
        time.sleep(0.01)
    return False


def test_stages_and_their_parts_are_shown(terminal):
    with stage("fit"):
        for letter in parts("values", ["a", "b", "c"]):
            if letter == "c":
                assert seen(terminal, "fit")
                assert seen(terminal, "values")
                assert seen(terminal, "2/3")
        with stage("training", 10) as shown:
            shown.tell(7, words="loss [1] 0.5")
            assert seen(terminal, "7/10")
            assert seen(terminal, "loss [1] 0.5")
    with stage("after"):
        assert seen(terminal, "after")


def test_a_stage_that_fails_is_closed(terminal):
    def fail():
        with stage("one"), stage("two"):
            assert seen(terminal, "two")
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert progress._DISPLAY.stages == []
    assert progress._DISPLAY.bars is None


def test_nothing_is_shown_within_the_delay(terminal, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 60.0)
    with stage("short"):
        assert list(parts("parts", range(3))) == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_it_is_silent_or_no_terminal(terminal, monkeypatch):
    with silent(), stage("hidden"):
        time.sleep(0.1)
    with silent(really=False), stage("shown"):
        assert seen(terminal, "shown")
    assert "hidden" not in terminal.getvalue()
    plain = io.StringIO()
    monkeypatch.setattr(progress._DISPLAY, "console", Console(file=plain, force_terminal=False))
    with stage("piped"):
        time.sleep(0.1)
    assert plain.getvalue() == ""


def test_a_silent_stage_is_not_shown_inside_one_that_is(terminal):
    with stage("outer"):
        assert seen(terminal, "outer")
        with silent(), stage("inner"):
            time.sleep(0.2)
    assert "inner" not in terminal.getvalue()


def show_in_another_process():
    stream = io.StringIO()
    progress._DISPLAY.console = Console(file=stream, force_terminal=True)
    progress.DELAY = 0.0
    with stage("worker"):
        time.sleep(0.2)
    return stream.getvalue()


def test_processes_that_another_one_started_show_nothing():
    """They share its terminal."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(show_in_another_process).result() == ""


@pytest.mark.parametrize("installed", [True, False])
def test_a_notebook_without_widgets_is_left_alone(terminal, monkeypatch, installed):
    # Rich would draw by ipywidgets, and warn in every cell where it is not installed.
    console = Console(file=io.StringIO(), force_jupyter=True, width=100)
    started = []

    class Bars:
        def __init__(self, *_, **__):
            self.add_task = self.remove_task = self.update = lambda *_, **__: 0
            self.start = lambda: started.append(self)
            self.stop = lambda: None

    monkeypatch.setattr(progress._DISPLAY, "console", console)
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr("rich.progress.Progress", Bars)
    with stage("fit"):
        for _ in range(50):
            if started:
                break
            time.sleep(0.01)
    assert bool(started) is installed
