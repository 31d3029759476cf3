"""What a killed process left beside a file goes with the next write; what a living one writes stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WRITE = """
import sys, time
from pathlib import Path
from detector_bench.atomic_files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text(sys.argv[2])
    print("writing", flush=True)
    if sys.argv[2] == "half":
        time.sleep(60)
"""


def writing(path: Path, text: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", WRITE, path, text], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nobody can be asked whether they live")
def test_only_what_the_dead_left_of_this_file_is_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "table.csv", tmp_path / "other.csv"
    killed, living, of_other = writing(path, "half"), writing(path, "half"), writing(other, "half")
    try:
        for process in (killed, of_other):
            process.send_signal(signal.SIGKILL)
            process.wait()
        elsewhere = tmp_path / f".table.csv.00000000-{killed.pid}.tmp"
        elsewhere.write_text("by another machine")
        assert len(list(tmp_path.iterdir())) == 4
        assert writing(path, "whole").wait() == 0
        left = {each.name.rpartition("-")[2] for each in tmp_path.iterdir() if each != elsewhere}
        assert left == {"table.csv", f"{living.pid}.tmp", f"{of_other.pid}.tmp"}
        assert path.read_text() == "whole"
        assert elsewhere.exists()
    finally:
        living.kill()
        living.wait()
