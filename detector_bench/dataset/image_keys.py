"""Finds the image that a cell of a foreign table means: by its id, its path, or a file name that only one has."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.foreign.column_meanings import columns_for
from detector_bench.dataset.import_decisions import ImportNews
from detector_bench.dataset.label_columns import split_names
from detector_bench.dataset.text_table import Findings, TextTable


class ImageKeys:
    """Finds the image that a cell of a foreign label table means.

    Args:
        ids: the images' ids.
        paths: for each, its path below the tree, and the path in the image set where that differs.
        folder: the name of the tree's folder, with which longer paths may name an image that lies directly in it.
    """

    def __init__(self, ids: list[str], paths: Sequence[tuple[str, ...]], *, folder: str = "") -> None:
        self._ids = set(ids)
        self._folder = folder
        # One name may be written in two ways: a letter with its mark, or both apart, as macOS stores it.
        paths = [tuple(map(_composed, names)) for names in paths]
        self._by_path = {path: name for name, names in zip(ids, paths, strict=True) for path in names}
        self._by_file_name: dict[str, dict[str, str]] = {}
        self._by_stem: dict[str, dict[str, str]] = {}
        for name, names in zip(ids, paths, strict=True):
            file = names[0].rpartition("/")[2]
            self._by_file_name.setdefault(file, {})[names[0]] = name
            if (stem := file.rpartition(".")[0]) and stem not in self._ids:
                self._by_stem.setdefault(stem, {})[names[0]] = name
        # One name may be written in two ways: a letter with its mark, or both apart, as macOS stores it.
        self._by_composed: dict[str, dict[str, str]] = {}
        for name, names in zip(ids, paths, strict=True):
            if not names[0].isascii():
                for text in (*names, names[0].rpartition("/")[2]):
                    self._by_composed.setdefault(_composed(text), {})[names[0]] = name
        self._example = paths[0][0] if paths else "t2i_model/prompt/0001.png"

    def column_of(self, table: TextTable, said: Mapping[str, str]) -> str | None:
        """The column whose cells mean images: the likeliest by its name, or else by how many cells do."""
        candidates = [name for name in columns_for("image_id", table.columns, said) if table.has(name)]
        if candidates[:1] == ["image_id"] or "image_id" in said:
            return said.get("image_id", "image_id")

        def known(column: str) -> int:
            texts = [text for text in table.encoded(column).texts if text.strip()]
            return sum(self._image(text) is not None for text in texts)

        if len(candidates) > 1:
            return max(candidates, key=known)  # of equals the likeliest by name
        taken = {name for theirs in said.values() for name in split_names(theirs)}
        others = [name for name in table.columns if name not in taken and known(name)]
        return next(iter(candidates), None) or max(others, key=known, default=None)

    def resolve(
        self,
        table: TextTable,
        column: str,
        findings: Findings,
        news: ImportNews,
        *,
        allow_unknown: bool = False,
    ) -> NDArray[np.object_]:
        """The image id of each record, or "" where the cell means no image or several; those are reported."""
        encoded = table.encoded(column)
        found = [self._image(value) for value in encoded.texts]
        unknown = np.array([item is None for item in found], dtype=bool)
        ambiguous = np.array([item == "" for item in found], dtype=bool)
        strangers = np.flatnonzero(unknown[encoded.codes])
        if allow_unknown and len(strangers) < len(table):
            if len(strangers):
                news.notes.append(
                    f"{table.file}: {len(strangers):,} of {len(table):,} rows are about images that are not "
                    "there, and left out"
                )
        else:
            findings.add_rows(
                table,
                column,
                strangers,
                message="label for an unknown image",
                accepted=f"an image id, a path such as {self._example!r}, or a file name",
            )
            if 0 < len(strangers) < len(table):
                news.remedy("--allow-unknown-images")
        findings.add_rows(
            table,
            column,
            np.flatnonzero(ambiguous[encoded.codes]),
            message="file name that several images have",
            accepted=lambda index: "one of " + ", ".join(sorted(self._namesakes(table.cell(column, index)))),
        )
        ids: NDArray[np.object_] = np.array([item or "" for item in found], dtype=object)[encoded.codes]
        return ids

    def _namesakes(self, value: str) -> dict[str, str]:
        name = _as_path(value)
        return (
            self._by_file_name.get(name) or self._by_stem.get(name) or self._by_composed.get(_composed(name), {})
        )

    def _image(self, value: str) -> str | None:
        if value.strip() in self._ids:
            return value.strip()
        path = _as_path(value)
        if path in self._by_path:
            return self._by_path[path]
        # A path on another machine, or an address, ends like the one here.
        folder, slash, rest = path.partition("/")
        while slash:
            if rest in self._by_path and ("/" in rest or folder == self._folder):
                return self._by_path[rest]
            folder, slash, rest = rest.partition("/")
        namesakes = self._namesakes(value)
        if len(namesakes) == 1:
            return next(iter(namesakes.values()))
        return "" if namesakes else None


def _as_path(value: str) -> str:
    return value.strip().replace("\\", "/").removeprefix("./")


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)
