"""What somebody says about an import, in one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from detector_bench.dataset.foreign.name_patterns import NamePattern
from detector_bench.dataset.foreign.table_form import TableOptions
from detector_bench.dataset.image_listing import COLUMNS, ListingSettings
from detector_bench.dataset.known_prompts import KnownPrompts
from detector_bench.dataset.label_import import LabelImport
from detector_bench.errors import ConfigError

LinkKind = Literal["copy", "hardlink", "symlink"]


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """How images and labels become an image set; see `import_images`."""

    seeds: Path | None = None
    labels: Path | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    translations: Mapping[str, str] = field(default_factory=dict)
    attribute: str = "gender"
    annotator: str = "imported"
    annotators: tuple[str, ...] = ()
    adjudicator: str = ""
    attribute_files: tuple[Path, ...] = ()
    prompts: Path | None = None
    category: str = "unknown"
    t2i_model: str = ""
    pattern: str = ""
    metadata: Path | None = None
    table: TableOptions = field(default_factory=TableOptions)
    known_prompts: KnownPrompts = field(default_factory=KnownPrompts)
    allow_unknown_images: bool = False
    link: LinkKind = "copy"
    overwrite: bool = False
    add: bool = False

    def check(self) -> None:
        """Check what needs no file; attributes of one's own have to be read before.

        Raises:
            ConfigError: a setting is none, or two contradict each other.
        """
        self.label_import.check()
        self.listing.check()
        if self.name_pattern is not None:
            self.name_pattern.check()
            if self.metadata is not None:
                raise ConfigError("a pattern and a table of metadata both say what the images are; leave out one")
            if "t2i_model" not in self.name_pattern.fields and not self.t2i_model:
                raise ConfigError(
                    f"pattern: {self.pattern!r} names no T2I model (accepted: {{t2i_model}}, or --t2i-model NAME)"
                )
        if self.add and self.overwrite:
            raise ConfigError("--add keeps what is there, and --overwrite replaces it; accepted: one of them")

    @property
    def name_pattern(self) -> NamePattern | None:
        """The pattern of file names, if there is one."""
        return NamePattern(self.pattern) if self.pattern else None

    @property
    def listing(self) -> ListingSettings:
        """What is said about a table of images."""
        said = {name: theirs for name, theirs in self.mapping.items() if name in (*COLUMNS, *self._image_id)}
        return ListingSettings(said, self.t2i_model)

    @property
    def label_import(self) -> LabelImport:
        """What is said about a table of labels."""
        return LabelImport(
            {name: theirs for name, theirs in self.mapping.items() if name not in COLUMNS},
            self.translations,
            self.attribute,
            self.annotator,
            self.annotators,
            self.adjudicator,
            self.table,
            self.allow_unknown_images,
        )

    @property
    def _image_id(self) -> tuple[str, ...]:
        """`image_id` is a column of the images where no table of labels is named."""
        return ("image_id",) if self.labels is None else ()
