"""Progress: a bar on a terminal, a line now and then elsewhere; rate, time left and counts in both."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from detector_bench.cli import progress
from detector_bench.cli.progress import RunProgressDisplay, what_it_waited_for
from detector_bench.runner.run_record import RunProgress
from detector_bench.vocabulary import Status


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def at(done: int, *, total: int = 100, reused: int = 0, errors: int = 0) -> RunProgress:
    counts = {
        "one": Counter({Status.CLEAR: done - errors, Status.ERROR: errors}),
        "two": Counter({Status.CLEAR: done}),
    }
    return RunProgress(total=total, reused=reused, done=done, counts=counts)


def shown(console: Console) -> list[str]:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def test_a_log_gets_a_line_every_ten_seconds_and_one_at_the_end(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=40)
    with RunProgressDisplay(console) as display:
        display.update(at(0))
        for seconds, done in ((3, 10), (12, 36), (13, 40), (22, 80), (24, 90), (25, 100)):
            clock.now = 100.0 + seconds
            display.update(at(done, errors=1))
    assert shown(console) == [
        "36 of 100 images, 3.0 images/s, 21 s left; clear 71 filtered 0 error 1",
        "80 of 100 images, 3.6 images/s, 6 s left; clear 159 filtered 0 error 1",
        "100 of 100 images, 4.0 images/s; clear 199 filtered 0 error 1",
    ]


def test_what_is_reused_is_said_and_not_part_of_the_rate(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=80)
    with RunProgressDisplay(console) as display:
        display.update(at(0, total=2000, reused=1900))
        clock.now += 20
        display.update(at(100, total=2000, reused=1900))
    assert shown(console) == [
        "1,900 of 2,000 images are judged already",
        "100 of 100 images, 5.0 images/s; clear 200 filtered 0 error 0",
    ]


def test_nothing_to_do_is_one_line(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=80)
    with RunProgressDisplay(console) as display:
        display.update(at(0, total=50, reused=50))
    assert shown(console) == ["50 of 50 images are judged already; nothing to run"]


def test_a_display_that_is_never_updated_shows_nothing() -> None:
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=80, force_terminal=terminal)
        with RunProgressDisplay(console):
            pass
        assert shown(console) == []


def test_a_terminal_gets_a_bar_with_rate_and_counts(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    with RunProgressDisplay(console) as display:
        display.update(at(0))
        clock.now += 10
        display.update(at(25, errors=2))
        display.update(at(50, errors=2))
    last = [line for line in shown(console) if "judging" in line][-1]
    assert "judging images" in last
    assert "50/100" in last
    assert "50%" in last
    assert "5.0 images/s" in last
    assert "clear 98 filtered 0 error 2" in last


def test_the_cursor_comes_back_after_an_interruption(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True)

    def interrupted() -> None:
        with RunProgressDisplay(console) as display:
            display.update(at(10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = "\n".join(shown(console))
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "hidden while the bar moves, then shown"


def test_a_rate_at_which_nothing_was_looked_at_says_so(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=80)
    for cached in (0, 40, 100):
        with RunProgressDisplay(console) as display:
            display.update(at(0))
            clock.now += 20
            state = at(100)
            state.from_cache = cached
            display.update(state)
    assert shown(console) == [
        "100 of 100 images, 5.0 images/s; clear 200 filtered 0 error 0",
        "100 of 100 images, 5.0 images/s (40 from cache); clear 200 filtered 0 error 0",
        "100 of 100 images, 5.0 images/s from cache; clear 200 filtered 0 error 0",
    ]


def test_a_run_says_what_it_waited_for_and_what_would_help() -> None:
    devices = {"yunet_faces-3a68b7d7": "cpu", "onnx_outputs-6da4612c": "cpu", "clip-00000000": "cuda (H100)"}
    spent = {"onnx_outputs-6da4612c": 36.9, "yunet_faces-3a68b7d7": 9.4, "decoding": 4.7, "reading": 0.1}
    assert what_it_waited_for({**spent, "verdicts and storing": 1.2}, devices) == (
        "Of 52 s: 71% onnx_outputs, 18% yunet_faces, 9% decoding, 2% verdicts and storing; more cores would help."
    )
    assert what_it_waited_for({"reading": 80.0, "clip-00000000": 20.0}, devices) == (
        "Of 100 s: 80% reading, 20% clip; a faster disk or network would help."
    )
    assert what_it_waited_for({"clip-00000000": 90.0, "decoding": 10.0}, devices).endswith(
        "; a faster GPU, or several of them, would help."
    )
    assert what_it_waited_for({"onnx-11111111": 6.0, "onnx-22222222": 3.0, "decoding": 1.0}, {}) == (
        "Of 10 s: 60% onnx-11111111, 30% onnx-22222222, 10% decoding."
    )
    # A service answers as fast as it answers.
    assert what_it_waited_for({"chat_answers-12345678": 10.0}, {}) == "Of 10 s: 100% chat_answers."
    assert what_it_waited_for({"decoding": 0.5}, {}) == "", "not worth a sentence"


def test_what_is_spent_is_shown_as_it_grows(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=40)
    state = at(100)
    state.spent = {"USD": 0.01234}
    with RunProgressDisplay(console) as display:
        display.update(RunProgress.of_data(state.as_data()))
    assert shown(console)[-1].endswith("error 0; spent 0.0123 USD")
