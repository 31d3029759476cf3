"""The script of an isolated detector: faceres by onnxruntime, prepared as `kind: onnx` prepares it."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import onnxruntime

_SIDE = 224


def load(parameters: dict[str, Any]) -> Any:
    """Open the network, with the settings of a run."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = parameters.get("threads", 0)
    options.log_severity_level = 3
    cv2.setNumThreads(1)
    session = onnxruntime.InferenceSession(
        parameters["files"]["network"], sess_options=options, providers=["CPUExecutionProvider"]
    )
    (entry,) = session.get_inputs()
    names = parameters["outputs"]

    def judge(images: list[Any]) -> list[dict[str, Any]]:
        resized = [cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR) for image in images]
        found = session.run(names, {entry.name: np.stack(resized).astype(np.float32)})
        return [
            {name: values[row] for name, values in zip(names, found, strict=True)} for row in range(len(images))
        ]

    return judge
