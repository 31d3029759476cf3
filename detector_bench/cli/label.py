"""`label`."""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli import label_again, label_grid, label_network, label_words, options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.sample_file import LabelSample
    from detector_bench.labelling import Assignment, DeskSettings, LabelStore


@command(prints_rows=False, reads_images=True)
def label(
    image_set: options.ImageSetFolder,
    *,
    annotator: Annotated[
        list[str] | None, typer.Option("--annotator", "-a", metavar="NAME", help="Who labels; may be repeated.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="FILE", help="Where answers go; by default labelling.sqlite in IMAGE_SET."
        ),
    ] = None,
    task: options.MaybeTask = None,
    attributes: options.AskedAttributes = None,
    calibration: Annotated[
        int | None,
        typer.Option(
            "--calibration",
            metavar="N",
            help="Pictures to label first and discuss; by default those that `sample --calibration` drew, or 150, "
            "at most a tenth.",
        ),
    ] = None,
    seed: options.SeedOption = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            metavar="FILE",
            help="Ask for these images; by default sample.csv in IMAGE_SET (pairs: pair_sample.csv).",
        ),
    ] = None,
    all_images: Annotated[
        bool, typer.Option("--all-images", help="Ask for all images, though there is a sample.csv in IMAGE_SET.")
    ] = False,
    overlap: Annotated[
        float,
        typer.Option(
            "--overlap", min=0, max=1, help="Share of the images that all annotators see; others get one label."
        ),
    ] = 1.0,
    results: options.Verdicts = None,
    half_width: options.HalfWidthOption = None,
    guidelines: label_words.Guidelines = None,
    language: label_words.Languages = None,
    questions: label_words.Questions = None,
    grid: label_grid.Size = None,
    propose: label_grid.Propose = None,
    alone: label_grid.Alone = 0.2,
    again: label_again.Again = None,
    host: label_network.Host = "127.0.0.1",
    port: label_network.Port = 8765,
    public_url: label_network.PublicUrl = None,
    token: label_network.Token = False,
    certificate: label_network.Certificate = None,
    key: label_network.Key = None,
    in_the_clear: label_network.InTheClear = False,
    connections: label_network.MostConnections = 1024,
    connections_per_address: label_network.MostPerAddress = 512,
    seconds_to_send: label_network.SecondsToSend = 15,
    seconds_idle: label_network.SecondsIdle = 30,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on although most of the image set's files have changed.")
    ] = False,
) -> None:
    """Label images in the browser: one picture, one key. Ctrl-C stops; everything is saved at each key press.

    Annotators work blind to each other and to detectors, each in their own random order (--seed, by default 0).
    Settings are decided once, when the store is made. If `sample` has drawn images, only these are asked for,
    those of its --calibration first and of everybody;
    --overlap 0.2 shows a fifth of them to everybody, and each of the others to one annotator. With
    --results the agreement page says what the labels so far are worth. --grid 12 shows twelve pictures with what
    detectors propose, which is quicker, and leads; --again puts images back into the queues. On this machine
    alone no token is needed, unless --token asks for one; with another --host each person gets a link with a token
    of their own, and TLS is needed (--certificate and --key, or a proxy in front of 127.0.0.1 that --public-url
    names). Links with tokens are shown on a terminal; if output goes elsewhere, they stand in a file beside the
    store that only you can read. Set DETECTOR_BENCH_LABEL_SECRET to keep links good over a restart.

    Examples: `detector-bench label my_images --annotator ann`,
    `detector-bench label my_images -a ann -a ben --attributes gender,age,race --token`,
    `detector-bench label my_images -a ann -a ben --overlap 0.2 --results results/one --half-width 0.05`,
    `detector-bench label my_images -a ann -a ben --language de`,
    `detector-bench label my_images --again selection.csv`
    """
    if again is not None:
        _send_back(again, image_set, store, task=task, annotators=annotator or [])
        return
    from detector_bench.installation import require

    for module in ("fastapi", "uvicorn"):
        require(module, extra="label")
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import Assignment, DeskSettings
    from detector_bench.labelling.web.app import make_app
    from detector_bench.labelling.web.connections import ConnectionLimits
    from detector_bench.labelling.web.desk import SECRET_VARIABLE, Desk
    from detector_bench.labelling.web.server import listen, serve
    from detector_bench.study_worth import StudyWorth
    from detector_bench.vocabulary import attributes_of

    attributes_of(image_set)
    label_grid.check(grid, propose)
    words = label_words.read_words(language or [], questions, guidelines, image_set=image_set)
    asked_own = ",".join(words.attributes()) or None
    asked_for = attributes or (None if _has_store(store, image_set, task) else asked_own)
    settings = _settings(task=task, attributes=asked_for, calibration_images=calibration, seed=seed)
    # Checked before anything is opened: a wrong name or address costs no waiting.
    plan = Desk(
        tuple(annotator or ()),
        host=host,
        port=port,
        public_url=public_url,
        secret=os.environ.get(SECRET_VARIABLE) or None,
        asks_token=token,
        encrypts=certificate is not None or key is not None,
    )
    tls = label_network.encryption(plan, certificate, key, in_the_clear=in_the_clear)
    wanted = ConnectionLimits(connections, connections_per_address, seconds_to_send, seconds_idle)
    limits = label_network.within_files(wanted)
    images = ImageSet.load(image_set, require_labels=False)
    is_of_pairs = task == options.TaskName.PAIRS
    drawn = None if is_of_pairs else _sample(sample, images, all_images=all_images)
    read = _predictions(results, drawn, half_width=half_width)
    asked = None if drawn is None else frozenset(drawn.asked)
    if is_of_pairs:
        asked = _pairs(sample, images, all_images=all_images)
    assignment = Assignment(asked, plan.annotators, overlap, _calibration(images, calibration))
    if not _has_store(store, image_set, task):
        # What is refused leaves no store of other questions behind.
        would_ask = settings or DeskSettings()
        words.of(would_ask, image_set=images.root)
        label_grid.check_proposals(would_ask, propose)
    with (
        listen(host, port) as listening,
        _opened(store, images, settings, accept_changes=accept_changes, assignment=assignment) as opened,
    ):
        said = words.of(opened.settings, image_set=images.root)
        desk = replace(
            plan,
            port=listening.getsockname()[1],
            guidelines=said.guideline,
            words=said.words,
            words_of=said.words_of,
            grid=label_grid.grid_of(opened, grid, propose, alone),
        )
        worth = None
        if drawn is not None and read is not None:
            worth = StudyWorth(
                images, drawn, read, opened.settings.attributes, options.checked_half_width(half_width)
            )
        app = make_app(opened, desk, worth=worth)
        with label_network.shown_links(desk, opened):
            # A browser's command line, and with it a token, could be read by everybody on this machine.
            if browser and desk.tokens is None:
                _open_browser(desk.link(desk.annotators[0]) if len(desk.annotators) == 1 else f"{desk.address}/")
            serve(app, listening, limits=limits, tls=tls)
        output.text(f"Stopped. Every answer that the page called saved is in {opened.path}; start again to go on.")


def _has_store(path: Path | None, folder: Path, task: str | None) -> bool:
    from detector_bench.labelling import Task
    from detector_bench.labelling.opening import default_path

    return (path or default_path(folder, Task(task or Task.IMAGES))).exists()


def _send_back(again: str, folder: Path, path: Path | None, *, task: str | None, annotators: list[str]) -> None:
    """Send images back to be labelled anew; a desk that is open takes them up."""
    from detector_bench.dataset import ImageSet
    from detector_bench.labelling import Assignment, Task
    from detector_bench.labelling.opening import default_path
    from detector_bench.vocabulary import attributes_of

    if not _has_store(path, folder, task):
        raise ConfigError(f"--again: nobody has labelled anything in {folder}; name the desk's store with --store")
    attributes_of(folder)
    images = ImageSet.load(folder, require_labels=False)
    file = path or default_path(images.root, Task(task or Task.IMAGES))
    with _opened(file, images, None, accept_changes=False, assignment=Assignment()) as opened:
        label_again.send_back(opened, again, annotators)


def _settings(
    *, task: str | None, attributes: str | None, calibration_images: int | None, seed: int | None
) -> DeskSettings | None:
    """The settings that were given; None if none was: then the store's own hold."""
    from detector_bench.labelling import DeskSettings

    names = None if attributes is None else tuple(name.strip() for name in attributes.split(",") if name.strip())
    given = {"task": task, "attributes": names, "calibration_images": calibration_images, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    return DeskSettings.checked(**given) if given else None


def _sample(path: Path | None, images: ImageSet, *, all_images: bool) -> LabelSample | None:
    """The sample that is asked for: the one that was named, or that lies in the image set; None: all images."""
    from detector_bench.dataset.sample_file import found_sample, read_sample

    if all_images and path is not None:
        raise ConfigError("--sample asks for some images and --all-images for all: name one of them")
    file = path or found_sample(images.root)
    if file is None or all_images:
        return None
    drawn = read_sample(file, images)
    output.say(
        f"Only the {len(drawn.rows):,} images of the sample {file} are asked for{_besides(drawn)}; --all-images "
        f"asks for all {len(images.images):,}."
    )
    return drawn


def _pairs(path: Path | None, images: ImageSet, *, all_images: bool) -> frozenset[str] | None:
    """The edited photos of the pairs that are asked about; None: all."""
    from detector_bench.dataset.pair_sample_file import found_pair_sample, read_pair_sample

    if all_images and path is not None:
        raise ConfigError("--sample asks for some pairs and --all-images for all: name one of them")
    file = path or found_pair_sample(images.root)
    if file is None or all_images:
        return None
    drawn = read_pair_sample(file, images)
    output.say(f"Only the {len(drawn):,} pairs of {file} are asked about; --all-images asks about all pairs.")
    return frozenset(drawn)


def _besides(drawn: LabelSample) -> str:
    return f", and the {len(drawn.calibration):,} of the calibration" if drawn.calibration else ""


def _calibration(images: ImageSet, number: int | None) -> frozenset[str] | None:
    """The images that `sample --calibration` drew; None: it drew none."""
    from detector_bench.dataset.calibration_file import CALIBRATION_FILE, read_calibration

    named = read_calibration(images)
    if not named:
        return None
    if number not in (None, len(named)):
        raise ConfigError(
            f"--calibration {number} and {CALIBRATION_FILE}, which lists {len(named):,} images, contradict each "
            "other: leave out the option, or remove the file"
        )
    output.say(f"The {len(named):,} images of {images.root / CALIBRATION_FILE} come first, and go to everybody.")
    return frozenset(named)


def _predictions(
    results: Path | None, drawn: LabelSample | None, *, half_width: float | None
) -> dict[str, pa.Table] | None:
    """What detectors say, for the worth of the labels; None: nothing is to be said of it."""
    from detector_bench.runner.stored_predictions import read_predictions

    if half_width is not None:
        options.checked_half_width(half_width)
    if results is None:
        if half_width is not None:
            raise ConfigError("--half-width needs what detectors say: name a result folder with --results")
        return None
    if drawn is None:
        raise ConfigError(
            "--results says what a sample's labels are worth: draw one with `detector-bench sample`, or name it "
            "with --sample"
        )
    return read_predictions(results)


def _opened(
    path: Path | None,
    images: ImageSet,
    settings: DeskSettings | None,
    *,
    accept_changes: bool,
    assignment: Assignment,
) -> LabelStore:
    from detector_bench.cli.progress import counting
    from detector_bench.labelling import LabelStore, Task
    from detector_bench.labelling.opening import default_path

    task = Task.IMAGES if settings is None else settings.task
    with counting("looking at changed images") as progress:
        return LabelStore.open(
            default_path(images.root, task) if path is None else path,
            images,
            settings=settings,
            accept_changes=accept_changes,
            progress=progress,
            assignment=assignment,
        )


def _open_browser(address: str) -> None:
    """Open a window, if this machine has any: a browser for terminals would take this one."""
    has_windows = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if has_windows:
        webbrowser.open(address)
