"""`audit`: from images to what can be said about the bias of the T2I models that made them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.cli.left_out import refuse_left_out, with_what_is_ready
from detector_bench.cli.publishing import MOST_WORKERS
from detector_bench.cli.studies import loaded, restricted
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.study import Study
    from detector_bench.study_outputs import StudyAudit


@command(reads_images=True)
def audit(
    study_file: options.StudyFile,
    *,
    out: options.Out,
    half_width: options.HalfWidthOption = None,
    image_set: options.ImageSetOption = None,
    weights_dir: options.WeightsDir = None,
    cache_dir: options.CacheDir = None,
    no_cache: options.NoCache = False,
    budget: options.BudgetOption = None,
    changed_inputs: options.ChangedInputs = False,
    n_clear: options.NClear = None,
    attribute: options.Attributes = None,
    only: options.Only = None,
    without: options.Without = None,
    estimated_labels: options.EstimatedLabels = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
) -> None:
    """How biased are the T2I models that made these images, with the labels that there are, or none?

    All of it at once: runs the study's detectors, estimates each T2I model's bias over all images from their
    verdicts and the human labels, compares the T2I models, and writes tables, figures and a report that leads with
    the answer. Prints the answer in sentences, and what to do next. Interrupted or repeated, it goes on where it
    was: label some images and call it again. Detectors that cannot judge on this machine are left out, as `run`
    leaves them out.

    Examples: `detector-bench audit configs/t2i_portraits.yaml --out results/portraits --weights-dir weights`,
    `detector-bench audit lyu2025 --image-set my_images --out results/mine --half-width 0.1`
    """
    from detector_bench.cli.progress import ReportDisplay, RunProgressDisplay
    from detector_bench.trust import allow_for_this_process

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    study = restricted(
        loaded(study_file, image_set=image_set, out=out),
        n_clear=n_clear,
        attribute=attribute,
        only=only,
        without=without,
        estimated_labels=estimated_labels,
    )

    def audited(some: Study) -> StudyAudit:
        with RunProgressDisplay(errors) as running, ReportDisplay(errors) as reporting:
            return some.audit(
                out,
                half_width=options.checked_half_width(half_width),
                weights_dir=weights_dir,
                cache_dir=cache_dir,
                use_cache=not no_cache,
                budget=budget,
                changed_inputs=changed_inputs,
                progress=running,
                report_progress=reporting,
                workers=min(os.cpu_count() or 1, MOST_WORKERS),
            )

    found, left_out = with_what_is_ready(study, out, audited, weights_dir=weights_dir)
    _print(found)
    refuse_left_out(left_out)


def _print(found: StudyAudit) -> None:
    several = len(found.attributes) > 1
    for place, attribute in enumerate(found.attributes):
        if several:
            output.say(f"{'' if place == 0 else chr(10)}Perceived {attribute.title}")
        for line in attribute.says:
            output.row(line, table="audit", attribute=attribute.name, says=line)
    output.say("")
    for line in found.next_steps:
        output.row(line, table="next_steps", says=line)
    output.rows("report", [{"file": found.report}])
    output.say(f"Open {found.report}")
