"""A user without the repository gets from the wheel to a model in onnxruntime."""

from pathlib import Path

import pytest

from benchmarks.from_wheel import INSTALLING, steps


@pytest.mark.slow
def test_from_the_wheel_alone_to_a_model_in_another_program(tmp_path: Path) -> None:
    done = steps(tmp_path)
    assert [step.name for step in done][INSTALLING : INSTALLING + 6] == [
        "init",
        "run",
        "report",
        "predict",
        "export to ONNX",
        "compare in onnxruntime",
    ]
    work = tmp_path / "work"
    assert (work / "runs/patients/report.html").exists()
    assert len(list(work.glob("runs/*/config.toml"))) == 3, "the experiment and two notebooks"
