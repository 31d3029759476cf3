"""detector_bench: can a detector be trusted to measure the bias of a text-to-image model?

>>> import detector_bench as db
>>> study = db.Study.from_yaml("configs/t2i_portraits.yaml")  # doctest: +SKIP
>>> results = study.run("results/portraits", weights_dir="weights")  # doctest: +SKIP
>>> results = db.Results.open("results/portraits")  # the same later  # doctest: +SKIP
>>> results.number("accuracy", detector="clip").value  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detector_bench.conformance import check_detector, check_stage
    from detector_bench.dataset import ImageSet, check, consensus, import_folder
    from detector_bench.detector_kit.check_card import check_card
    from detector_bench.detector_kit.trial import try_detector
    from detector_bench.detectors import Card, Prediction, build_detector, detector
    from detector_bench.errors import DetectorBenchError
    from detector_bench.evaluation import evaluate
    from detector_bench.generation.generating import generate
    from detector_bench.metrics import metric
    from detector_bench.perception.stage import Batch, Frame, Stage
    from detector_bench.quickstart import build_image_set
    from detector_bench.runner.readiness import detector_readiness
    from detector_bench.runner.stored_predictions import read_predictions
    from detector_bench.study import Results, Study
    from detector_bench.study_questions import ResultTables
    from detector_bench.tables import Column, Table, TableNumbers, declare_table, makes_table, study_tables
    from detector_bench.vocabulary import Status

__version__ = "0.2.0"

_HOMES = {
    "Batch": "perception.stage",
    "Card": "detectors",
    "Column": "tables",
    "DetectorBenchError": "errors",
    "Frame": "perception.stage",
    "ImageSet": "dataset",
    "Prediction": "detectors",
    "ResultTables": "study_questions",
    "Results": "study",
    "Stage": "perception.stage",
    "Status": "vocabulary",
    "Study": "study",
    "Table": "tables",
    "TableNumbers": "tables",
    "build_detector": "detectors",
    "build_image_set": "quickstart",
    "check": "dataset",
    "check_card": "detector_kit.check_card",
    "check_detector": "conformance",
    "check_stage": "conformance",
    "consensus": "dataset",
    "declare_table": "tables",
    "detector": "detectors",
    "detector_readiness": "runner.readiness",
    "evaluate": "evaluation",
    "generate": "generation.generating",
    "import_folder": "dataset",
    "makes_table": "tables",
    "metric": "metrics",
    "read_predictions": "runner.stored_predictions",
    "study_tables": "tables",
    "try_detector": "detector_kit.trial",
}

__all__ = [
    "Batch",
    "Card",
    "Column",
    "DetectorBenchError",
    "Frame",
    "ImageSet",
    "Prediction",
    "ResultTables",
    "Results",
    "Stage",
    "Status",
    "Study",
    "Table",
    "TableNumbers",
    "build_detector",
    "build_image_set",
    "check",
    "check_card",
    "check_detector",
    "check_stage",
    "consensus",
    "declare_table",
    "detector",
    "detector_readiness",
    "evaluate",
    "generate",
    "import_folder",
    "makes_table",
    "metric",
    "read_predictions",
    "study_tables",
    "try_detector",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that `import detector_bench` stays quick."""
    if name in _HOMES:
        return getattr(import_module(f"detector_bench.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'detector_bench' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, for completion."""
    return sorted(__all__)
