"""`generations list`, `generations show` and `generations remake`: what became of each request of an image set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError, WeightsError

if TYPE_CHECKING:
    from detector_bench.generation.recipe import Recipe
    from detector_bench.generation.remaking import Remade
    from detector_bench.generation.stored_requests import ModelRequests, StoredRequest

_MOST_REASONS = 10
_ELSEWHERE = "if files that it names lie elsewhere, beside the recipe that was run: name that with --recipe"
_DIFFERENT = 1
"""Exit status where the bytes are others."""

ImageId = Annotated[str, typer.Argument(metavar="IMAGE_ID", help="As images.csv and generations.parquet call it.")]
InSet = Annotated[Path, typer.Option("--set", metavar="SET", help="The image set; by default this folder.")]


@command(reads_images=True)
def list_(
    image_set: options.ImageSetFolder,
) -> None:
    """What became of the requests of an image set: how many of each status, why, and what they cost.

    Example: `detector-bench generations list sets/lyu2025`
    """
    import pandas as pd

    from detector_bench.generation.stored_requests import requests_by_model

    reasons = []
    for each in requests_by_model(image_set):
        _print_model(each)
        for (status, reason), number in each.reasons.most_common(_MOST_REASONS):
            example = each.examples[status, reason]
            reasons.append((each.t2i_model, status, number, _plain(reason), _plain(example)))
        if (left := len(each.reasons) - _MOST_REASONS) > 0:
            output.say(f"{each.t2i_model}: {left:,} more reasons, each less often")
    columns = ["t2i_model", "status", "requests", "reason", "for example"]
    if reasons:
        table = pd.DataFrame(reasons, columns=columns)
        output.grid(table)
        output.rows("reasons", table.rename(columns={"for example": "example"}).to_dict("records"))
    output.say(f"Next: detector-bench generations show IMAGE_ID --set {image_set}")


@command(reads_images=True)
def show(image_id: ImageId, *, image_set: InSet = Path()) -> None:
    """Show everything that is recorded of a request: prompt, seed, parameters, T2I model, versions, cost.

    What the recipe was changed away from, or what was asked for again, is shown behind what it asks for now.

    Example: `detector-bench generations show sdxl__nurse__0003 --set sets/lyu2025`
    """
    import pandas as pd

    from detector_bench.generation.stored_requests import requests_of_image
    from detector_bench.vocabulary.generations import GenerationStatus

    requests = requests_of_image(image_set, image_id)
    for stored in requests:
        facts = {name: _plain(text) for name, text in _facts(stored, image_set).items() if text}
        output.grid(pd.DataFrame({"request": facts.keys(), stored.image_id: facts.values()}))
        output.rows("generations", [{**stored.row, "path": stored.path}])
    if requests[0].status in (GenerationStatus.MADE, GenerationStatus.BLOCKED):
        output.say("")
        output.say(f"Next: detector-bench generations remake {image_id} --set {image_set}")


@command(reads_images=True)
def remake(
    image_id: ImageId,
    *,
    image_set: InSet = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Keep the image that is made, in this file.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe", metavar="FILE", help="The recipe, if files that it names lie beside it and not in SET."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cuda:0, mps or cpu; by default the best."),
    ] = None,
    pay: Annotated[bool, typer.Option("--pay", help="Ask a T2I model that charges for it.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also with another T2I model or request than is recorded.")
    ] = False,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
    allow_key: options.AllowKey = None,
    allow_host: options.AllowHost = None,
) -> None:
    """Make an image once more, and say whether its bytes are the same on this machine, and what differs.

    Prompt, seed and parameters are those that are recorded, the T2I model is that of the set's recipe; nothing in
    the set changes. Exit status 0: the same bytes (or the same refusal); 1: others. Where they differ it says how
    far the pixels are apart, and which versions are not those of then.

    Examples: `detector-bench generations remake sdxl__nurse__0003 --set sets/lyu2025`,
    `detector-bench generations remake dalle__nurse__0003 --set sets/dalle --pay --out again.png`
    """
    from detector_bench.atomic_files import replacing
    from detector_bench.generation.making import RECIPE_FILE
    from detector_bench.generation.recipe import read_recipe
    from detector_bench.generation.remaking import Remaker
    from detector_bench.plugins import load_plugins
    from detector_bench.trust import allow_for_this_process

    if out is not None and out.exists():
        raise ConfigError(f"{str(out)!r} exists: name another file with --out")
    allow_for_this_process(keys=allow_key or (), hosts=allow_host or ())
    load_plugins(plugin or [])
    remaker = Remaker(
        folder=image_set,
        recipe=read_recipe(recipe) if recipe else _recipe_of(image_set / RECIPE_FILE),
        device=device,
        weights_dir=weights_dir,
        pay=pay,
        anyway=anyway,
        report=output.say,
    )
    try:
        made = remaker.remake(image_id)
    except WeightsError as error:
        raise error if recipe else WeightsError(f"{error}\n{_ELSEWHERE}") from error
    _print_remade(made)
    if out is not None and made.image is not None:
        with replacing(out) as temporary:
            temporary.write_bytes(made.image.content)
        output.say(f"Written: {out}")
    if not made.same:
        raise typer.Exit(_DIFFERENT)


def _recipe_of(path: Path) -> Recipe:
    """The recipe that lies in an image set, without the files that it names."""
    from detector_bench.generation.recipe import read_recipe

    try:
        return read_recipe(path)
    except ConfigError as error:
        raise ConfigError(f"{error}\n{_ELSEWHERE}") from error


def _print_model(found: ModelRequests) -> None:
    from detector_bench.perception.answers.spending import money
    from detector_bench.vocabulary.generations import GenerationStatus

    counts = {each.value: found.counts[each] for each in GenerationStatus if found.counts[each]}
    told = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    made = found.counts[GenerationStatus.MADE]
    seconds = found.seconds / made if made else None
    more = [
        f"{seconds:,.2f} s per image" if seconds is not None else "",
        f"cost {money(found.cost)}" if found.cost else "",
        f"{found.may_have_been_paid:,} may have been charged for in vain" if found.may_have_been_paid else "",
        f"{found.not_in_recipe:,} earlier ones (repeated, or no longer in the recipe)"
        if found.not_in_recipe
        else "",
    ]
    output.row(
        f"{found.t2i_model}: {'; '.join(filter(None, [told, *more]))}",
        table="generations",
        t2i_model=found.t2i_model,
        requests=counts,
        seconds_per_image=seconds,
        cost=found.cost,
        may_have_been_paid=found.may_have_been_paid,
        not_in_recipe=found.not_in_recipe,
    )


def _facts(stored: StoredRequest, folder: Path) -> dict[str, str]:
    """What people read, by its name; empty where there is nothing."""
    from detector_bench.perception.answers.spending import money

    row = stored.row
    cost = "" if row["cost"] is None else money({str(row["currency"]): row["cost"]})
    return {
        "status": row["status"] + (f": {row['reason']}" if row["reason"] else ""),
        "earlier": "" if row["in_recipe"] else "no longer in the recipe, or asked for again since",
        "T2I model": row["t2i_model"],
        "prompt id": row["prompt_id"],
        "number": str(row["number"]),
        "seed photo": row["seed_image_id"] or "",
        "prompt": row["prompt"],
        "end of the prompt that was not read": row["prompt_cut"] or "",
        "revised prompt": row["revised_prompt"] or "",
        "random seed": str(row["seed"]),
        "parameters": _lines(row["parameters"]),
        "model": row["model"] or "",
        "revision": row["revision"] or "",
        "sha256 of the weights": row["model_sha256"] or "",
        "versions": _lines(row["versions"]),
        "device": row["device"] or "",
        "seconds": "" if row["seconds"] is None else f"{row['seconds']:g}",
        "cost": cost,
        "may have been charged for": "yes" if row["may_have_been_paid"] else "",
        "made at": row["made_at"] or "",
        "image": _image(stored, folder),
        "sha256 of the image": row["image_sha256"] or "",
        "provenance": row["provenance"] or "",
        "sha256 of the request": row["request_sha256"],
    }


def _image(stored: StoredRequest, folder: Path) -> str:
    from hashlib import file_digest

    if stored.path is None:
        return "not in the image set" if stored.row["image_sha256"] else ""
    try:
        with (folder / stored.path).open("rb") as stream:
            now = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"{stored.path} (cannot be read: {error.strerror or error})"
    return stored.path + ("" if now == stored.row["image_sha256"] else " (its content has changed since)")


def _plain(text: str) -> str:
    """What others wrote, without anything that a terminal would obey."""
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def _lines(facts: dict[str, Any]) -> str:
    return "\n".join(f"{name} {value}" for name, value in facts.items())


def _print_remade(found: Remade) -> None:
    from detector_bench.perception.answers.spending import money

    row = found.stored.row
    for each in found.differences:
        output.row(
            f"{each.what}: {each.then}, now {each.now}",
            table="differences",
            what=each.what,
            then=each.then,
            now=each.now,
        )
    if not found.differences:
        what = "Nothing that is recorded of the T2I model, its libraries and device differs"
        more = "; on a GPU an image also hangs on the batch that it is made in, and services draw as they like"
        output.say(f"{what}{'' if found.same else more}.")
    pixels = found.pixels
    output.row(
        f"{found.stored.image_id}: {_verdict(found)}",
        table="remade",
        image_id=found.stored.image_id,
        same=found.same,
        status=found.status.value,
        reason=found.reason,
        sha256_then=row["image_sha256"],
        sha256_now=None if found.image is None else found.image.sha256,
        largest_difference=None if pixels is None else pixels.largest,
        mean_difference=None if pixels is None else pixels.mean,
        share_of_pixels=None if pixels is None else pixels.share,
        kept=found.kept,
        seconds=found.seconds,
        cost=found.cost,
        currency=found.currency if found.cost is not None else None,
    )
    if found.kept:
        output.warn(found.kept)
    if found.cost is not None:
        output.say(f"It cost {money({found.currency: found.cost})}, beside what the set has cost.")


def _verdict(found: Remade) -> str:
    """Whether the bytes are the same, and if not how far the pixels are apart, in one line."""
    from detector_bench.vocabulary.generations import GenerationStatus

    then = found.stored.status
    if found.status is not GenerationStatus.MADE:
        again = "refused again" if found.same else f"{then.value} then, {found.status.value} now"
        return f"{again} ({found.reason})"
    if then is not GenerationStatus.MADE:
        return f"{then.value} then ({found.stored.row['reason']}), and made now"
    if found.same:
        return "the same bytes"
    if found.pixels is None:
        return "other bytes; its pixels cannot be compared"
    if found.pixels.largest == 0:
        return "the same pixels in other bytes: the file was written in another way"
    return (
        f"other bytes: {100 * found.pixels.share:.3g} % of its pixels differ, by at most {found.pixels.largest}, "
        f"on average {found.pixels.mean:.3g} of 255"
    )
