"""What became of requests to T2I models: the words, and the table `generations.parquet` of an image set."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

GENERATIONS_FILE = "generations.parquet"
"""In the folder of an image set: one row for every request that its recipe makes."""


class GenerationStatus(StrEnum):
    """What became of a request to a T2I model: four different things."""

    MADE = "made"
    """There is an image."""
    BLOCKED = "blocked"
    """The T2I model, or the service around it, refused: by a message, or by a black image of a safety checker."""
    ERROR = "error"
    """Something went wrong; it is asked for again when the recipe is run again, unless it may have been paid."""
    WAITING = "waiting"
    """Nobody has answered yet."""


GENERATIONS = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),  # of the image, whether it was made or not
        pa.field("t2i_model", pa.string(), nullable=False),
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),  # of the image among those of its prompt, from 0
        pa.field("seed_image_id", pa.string()),  # of an edit: the photo that was edited
        pa.field("seed", pa.int64(), nullable=False),  # that the request had; some services take none
        pa.field("status", pa.string(), nullable=False),  # `GenerationStatus`
        pa.field("reason", pa.string()),  # of a refusal or an error
        pa.field("prompt", pa.string(), nullable=False),  # the sentence that was sent
        pa.field("revised_prompt", pa.string()),  # what the service made of it, where it says so
        pa.field("prompt_cut", pa.string()),  # the end of the sentence that the text encoder did not read
        pa.field("parameters", pa.string(), nullable=False),  # JSON: all that was asked for besides
        pa.field("model", pa.string()),  # its own name: of a checkpoint, a service, a workflow
        pa.field("revision", pa.string()),  # of the checkpoint: the commit
        pa.field("model_sha256", pa.string()),  # over the weights
        pa.field("versions", pa.string()),  # JSON: of the libraries, by name
        pa.field("device", pa.string()),
        pa.field("seconds", pa.float64()),  # of work or waiting, divided by the images of a batch
        pa.field("cost", pa.float64()),  # null where nothing is charged or nobody says what
        pa.field("currency", pa.string()),
        pa.field("may_have_been_paid", pa.bool_(), nullable=False),  # an error whose request may have been charged
        pa.field("image_sha256", pa.string()),  # of the file
        pa.field("provenance", pa.string()),  # what the service put into the file, such as c2pa
        pa.field("request_sha256", pa.string(), nullable=False),  # over all that decides the image
        pa.field(
            "in_recipe", pa.bool_(), nullable=False
        ),  # false: the recipe no longer asks for it, or it was asked for again
        pa.field("made_at", pa.string()),  # UTC
    ]
)
"""One row per request. `seconds` and `made_at` are measured, and differ between runs; nothing else does where a
T2I model gives the same image for the same seed."""

MEASURED = ("seconds", "made_at")
"""Columns that differ from run to run."""
