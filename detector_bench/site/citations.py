"""How to cite what a report rests on."""

from __future__ import annotations

from typing import NamedTuple

from detector_bench import __version__


class Citation(NamedTuple):
    """One entry of a list of references."""

    sentence: str
    bibtex: str


def citations() -> tuple[Citation, ...]:
    """The study of 2025, whose protocol and scores these are, and this tool."""
    return (
        Citation(
            "The protocol, the scores and the comparison with human labels are those of Lyu et al. (2025).",
            "@inproceedings{lyu2025,\n"
            "  author    = {Lyu, Yunbo and Yang, Zhou and Niu, Yuqing and Jiang, Jing and Lo, David},\n"
            "  title     = {Do Existing Testing Tools Really Uncover Gender Bias in Text-to-Image Models?},\n"
            "  booktitle = {Proceedings of the 33rd ACM International Conference on Multimedia (MM '25)},\n"
            "  year      = {2025},\n"
            "  address   = {Dublin, Ireland},\n"
            "  doi       = {10.1145/3746027.3755748}\n"
            "}",
        ),
        Citation(
            f"The numbers of this report were computed by detector_bench {__version__}. Cite the detectors and "
            "their weights, too: their sources stand under Provenance.",
            "@software{detector_bench,\n"
            "  author  = {{The detector\\_bench authors}},\n"
            "  title   = {detector\\_bench: can a gender, age or race detector be trusted to measure the bias of "
            "a text-to-image model?},\n"
            f"  version = {{{__version__}}}\n"
            "}",
        ),
    )
