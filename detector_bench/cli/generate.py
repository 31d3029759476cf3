"""`generate`: the images of a recipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.completion import complete_recipe_models, complete_recipes
from detector_bench.cli.console import command, errors, output
from detector_bench.cli.recipes import say_if_passed_over
from detector_bench.errors import DetectorBenchError, RunInterruptedError

if TYPE_CHECKING:
    from detector_bench.generation.generation_forecast import ModelForecast
    from detector_bench.generation.generation_order import ModelStanding
    from detector_bench.generation.making import ImageSetMaking
    from detector_bench.generation.standing import Standings

_GIGABYTE = 1e9
_HOUR = 3600.0
_MINUTE = 60.0


@command(prints_rows=True)
def generate(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's file, or the name of one that comes along (`detector-bench recipes`).",
            autocompletion=complete_recipes,
        ),
    ],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="SET", help="Folder of the image set; made if it is missing.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Only this T2I model of the recipe; may be repeated.",
            autocompletion=complete_recipe_models,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cuda:0, mps or cpu; by default the best."),
    ] = None,
    budget: options.BudgetOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Ask for at most N images in this run.")
    ] = None,
    ask_again: Annotated[
        bool,
        typer.Option(
            "--ask-again", help="Also what may have been charged for and gave no image; it may be charged twice."
        ),
    ] = False,
    remake_changed: Annotated[
        bool,
        typer.Option(
            "--remake-changed", help="Make images anew whose request is another since the recipe was changed."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Make and send nothing; say how many images, how long, how much money and disk."
        ),
    ] = False,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
) -> None:
    """Make the images of a recipe, and keep what became of every request: made, blocked or error, and why.

    SET becomes an image set that `check`, `label`, `run` and `audit` take as it is; its generations.parquet has a
    row for every request. It can be stopped at any moment: the same command goes on where it was, and pays for
    nothing twice. Several processes can each make the images of another T2I model (--model) in the same SET.

    Examples: `detector-bench generate lyu2025 --out sets/lyu2025 --dry-run`,
    `detector-bench generate my_recipe.yaml --out sets/mine`,
    `detector-bench generate my_recipe.yaml --out sets/mine --model sdxl --device cuda:0`,
    `detector-bench generate my_recipe.yaml --out sets/mine --budget 20`
    """
    from detector_bench.generation.generation_order import GenerationOrder
    from detector_bench.generation.making import ImageSetMaking
    from detector_bench.generation.recipe import read_recipe
    from detector_bench.plugins import load_plugins
    from detector_bench.trust import allow_for_this_process

    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    say_if_passed_over(recipe)
    order = GenerationOrder(
        t2i_models=tuple(model or ()),
        device=device,
        budget=budget,
        most=limit,
        ask_again=ask_again,
        remake_changed=remake_changed,
        weights_dir=weights_dir,
    )
    making = ImageSetMaking(read_recipe(recipe), out, order, output.say)
    for line in making.left_out():
        output.say(line)
    if dry_run:
        _print_dry_run(making)
        return
    if (finished := making.finished()) is not None:
        _print_standing(finished)
        output.say("All of it is there: nothing to do.")
        return
    _run(making)


def _run(making: ImageSetMaking) -> None:
    from detector_bench.cli.generation_progress import GenerationDisplay
    from detector_bench.generation.standing import RequestStanding
    from detector_bench.vocabulary.generations import GENERATIONS_FILE

    output.say(f"{making.recipe.name}: {len(making.plan):,} images, into {making.folder}")
    output.warn(*making.warnings())
    is_stopped = False
    ended_by: DetectorBenchError | None = None
    with GenerationDisplay(errors) as display:
        try:
            making.run(display.update)
        except KeyboardInterrupt:
            is_stopped = True
        except DetectorBenchError as error:
            ended_by = error
    if ended_by is not None:
        if (making.folder / GENERATIONS_FILE).is_file():
            with suppress(DetectorBenchError):
                _print_standing(making.standing())
        raise ended_by
    standing = making.standing()
    _print_standing(standing)
    if is_stopped:
        again = RunInterruptedError("stopped; what was made is kept, and the same command goes on from there")
        if making.left_behind:
            # A thread that computes in a library's code would bring the interpreter down while it ends.
            output.warn(str(again))
            sys.stdout.flush()
            os._exit(130)
        raise again
    if any(each.standings.no_longer for each in standing) and (making.folder / "labels.csv").is_file():
        output.warn(
            "Images that the recipe no longer makes are not in images.csv: labels of theirs in labels.csv are "
            f"mistakes now, and detector-bench check {making.folder} names them."
        )
    failed = sum(each.standings.of(RequestStanding.AGAIN) for each in standing)
    doubtful = sum(each.standings.of(RequestStanding.DOUBTFUL) for each in standing)
    if failed:
        output.warn(f"{_count(failed, 'request')} failed; the same command asks again.")
    if doubtful:
        output.warn(
            f"{_count(doubtful, 'request')} gave no image and may have been charged for; asked again only with "
            "--ask-again, and then perhaps charged for twice."
        )
    if failed or doubtful:
        output.warn(f"Why stands in {GENERATIONS_FILE}: detector-bench generations list {making.folder}")
        raise typer.Exit(1)
    folder = making.folder
    if changed := sum(each.standings.of(RequestStanding.CHANGED) for each in standing):
        output.say(
            f"{_count(changed, 'image')} of the recipe as it was: not among the set's images until the same "
            "command has made them anew."
        )
        return
    if waiting := sum(each.standings.of(RequestStanding.NEW) for each in standing):
        output.say(f"{_count(waiting, 'request')} without an answer so far: the same command goes on with them.")
        return
    output.say(f"Next: detector-bench check {folder}; detector-bench label {folder} --annotator NAME")


def _print_standing(found: Sequence[ModelStanding]) -> None:
    from detector_bench.perception.answers.spending import money

    for plan, standings, spent in found:
        counts = _by_status(standings)
        told = ", ".join(f"{name} {number:,}" for name, number in counts.items())
        paid = f"; spent {money(spent)}" if spent else ""
        old = f"; no longer in the recipe {standings.no_longer:,}" if standings.no_longer else ""
        output.row(
            f"{plan.name}: {told}{old}{paid}",
            table="generations",
            t2i_model=plan.name,
            requests=counts,
            no_longer=standings.no_longer,
            spent=spent,
        )


def _by_status(standings: Standings) -> dict[str, int]:
    """How many requests have which status in generations.parquet, once a run is over."""
    from detector_bench.generation.standing import RequestStanding
    from detector_bench.vocabulary.generations import GenerationStatus

    status = {
        RequestStanding.NEW: GenerationStatus.WAITING,
        RequestStanding.AGAIN: GenerationStatus.ERROR,
        RequestStanding.DOUBTFUL: GenerationStatus.ERROR,
    }
    counts: dict[str, int] = {}
    for each, number in standings.counts.items():
        if number:
            name = status.get(each, each).value
            counts[name] = counts.get(name, 0) + number
    return counts


def _print_dry_run(making: ImageSetMaking) -> None:
    from detector_bench.generation.generation_forecast import forecasts, free_bytes
    from detector_bench.perception.answers.spending import money

    recipe = making.recipe
    prompts = _count(len(making.plan.scenes), "prompt")
    photos = f" x {_count(len(making.plan.photos), 'seed photo')}" if making.plan.photos else ""
    models = _count(len(recipe.models), "T2I model")
    output.say(
        f"{recipe.name}: {prompts}{photos} x {_count(recipe.images_per_prompt, 'image')} x {models} "
        f"= {_count(len(making.plan), 'image')}"
    )
    found = forecasts(making)
    for each in found:
        _print_forecast(each)
    seconds = [each.seconds for each in found]
    size = sum(each.bytes_of_images or 0.0 for each in found)
    all_known = all(each.bytes_of_images is not None for each in found)
    disk = f"{'about' if all_known else 'at least about'} {_gigabytes(size)}" if size else "unknown size"
    costs: dict[str, float] = {}
    for each in found:
        costs[each.currency] = costs.get(each.currency, 0.0) + (each.cost or 0.0)
    costs = {currency: cost for currency, cost in costs.items() if cost}
    whole = _duration(sum(each for each in seconds if each is not None)) if None not in seconds else "unknown time"
    price = f"at most {money(costs)}" if costs else "no charge"
    if any(each.cost is None for each in found):
        price = "a cost that nobody can say (state prices)"
    output.say(
        f"In all {sum(each.images for each in found):,} images: {whole}, {price}, {disk}; "
        f"{free_bytes(making.folder) / _GIGABYTE:,.0f} GB are free"
    )
    if (changes := making.changes()) is not None:
        output.warn(f"Nothing would be made: {changes}")
    if size > free_bytes(making.folder):
        output.warn("There is not enough room on the disk.")
    output.warn(*making.warnings(), *making.without_face(), *making.unread_ends())
    for note in recipe.notes:
        output.say(f"Note: {note}")


def _print_forecast(found: ModelForecast) -> None:
    counts = {each.value: number for each, number in found.standings.counts.items() if number}
    time = "unknown before the first image" if found.seconds is None else _duration(found.seconds)
    if found.seconds is not None:
        time += " (as images took here)" if found.is_measured else " (estimated)"
    cost = "unknown" if found.cost is None else f"{found.cost:,.2f} {found.currency}" if found.cost else "none"
    download, size = found.bytes_to_download, found.bytes_of_images
    facts = {
        "requests": ", ".join(f"{name} {number:,}" for name, number in counts.items()),
        "to be made": f"{found.images:,} images",
        "time": time,
        "cost": cost,
        "on the disk": "unknown before the first image" if size is None else f"about {_gigabytes(size)}",
        "to download": "unknown" if download is None else _gigabytes(download) if download else "",
        "sends": "; ".join(found.sends),
        "missing here": "; ".join(found.lacks),
    }
    output.record(found.t2i_model, facts, table="forecast", summary="")
    output.rows("forecasts", [{**_plain(found), "counts": counts}])


def _plain(found: ModelForecast) -> dict[str, object]:
    return {name: value for name, value in found._asdict().items() if name != "standings"}


def _gigabytes(size: float) -> str:
    return f"{size / _GIGABYTE:,.2f} GB" if size >= _GIGABYTE / 100 else f"{size / 1e6:,.2f} MB"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"about {seconds:,.0f} s"
    if seconds < 2 * _HOUR:
        return f"about {seconds / _MINUTE:,.0f} min"
    return f"about {seconds / _HOUR:,.1f} h"
