"""Cross-site scripting, tried in a real browser: whatever a study, an annotator or an image set says stays text.

Each page is opened twice: as people open it, and with its content security policy switched off, so that escaping
has to hold by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from browser import chromium, overflow
from small_parts import picture, write_csv, write_image_set
from web_report_study import Shown, write_study

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, DeskSettings, LabelStore
from detector_bench.results.finished_study import ResultFolder
from detector_bench.site import ReportSettings
from detector_bench.study import Results
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, PROMPT_COLUMNS

pytest.importorskip("playwright")
pytest.importorskip("fastapi", reason="needs the extra label")

from label_server import LabelServer, label_server
from playwright.sync_api import Browser, Page

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.slow

RUN = "window.hacked=1"
HOSTILE = {
    "script": f"<script>{RUN}</script>",
    "end of a script": f"</script><script>{RUN}</script>",
    "comment": f"<!--<script> --><script>{RUN}</script>",
    "handler": f"<img src=x onerror={RUN}>",
    "drawing": f"<svg onload={RUN}><animate onbegin={RUN} attributeName=x></svg>",
    "attribute": f'" autofocus tabindex=0 onfocus="{RUN}" onmouseover=\'{RUN}\' x="',
    "quote": f"' autofocus tabindex=0 onfocus='{RUN}' x='",
    "address": f"javascript:{RUN}//",
    "frame": f'<iframe srcdoc="<script>parent.{RUN.partition(".")[2]}</script>"></iframe>',
    "text area": f"</textarea></title></style></noscript></template><script>{RUN}</script>",
    "string": f'\\");{RUN}//\u2028{RUN}//`${{{RUN}}}`',
    "template": f"{{{{ [].constructor.constructor('{RUN}')() }}}}{{% raw %}}${{{RUN}}}",
    "mathematics": f"$\\href{{javascript:{RUN}}}{{x}}$ & $x$",
    "guideline": f"[x](javascript:{RUN}) `<b onclick={RUN}>` | <b onclick={RUN}> |",
}
ALL = " ".join(HOSTILE.values())
NAME = HOSTILE["handler"].replace("/", "")
"""Where no slash may stand: names of annotators, folders and files."""
FILES = [f"{text.replace('/', '')}.png" for text in HOSTILE.values() if "\\" not in text]
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script></svg>'

SEARCH = """
() => {
    const all = [...document.querySelectorAll("*")];
    const handlers = all.filter((one) => [...one.attributes].some(({ name }) => name.startsWith("on")));
    const links = all.filter((one) => ["href", "src", "action", "xlink:href"]
        .some((name) => /^\\s*(javascript|data:text)/iu.test(one.getAttribute(name) ?? "")));
    const foreign = all.filter((one) => one.matches("iframe, object, embed, base, textarea[autofocus], animate")
        || (one.matches("script") && !one.src) || one.matches("img[src=x]"));
    const found = [...handlers, ...links, ...foreign].map((one) => one.outerHTML.slice(0, 200));
    return [window.hacked ?? null, ...found];
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(autouse=True, scope="module")
def _own_attribute_of_this_file_only() -> Iterator[None]:
    known, places = ATTRIBUTES._known, ATTRIBUTES._places
    yield
    ATTRIBUTES._known, ATTRIBUTES._places = known, places


def definition() -> dict[str, object]:
    classes = [
        {"name": name, "text": f"{name} {ALL}", "hint": ALL, "offered": ALL, "answers": [name]}
        for name in ("male", "female")
    ]
    texts = dict.fromkeys(("words", "title", "short", "question", "care", "judge"), ALL)
    return {"classes": classes, **texts, "reasons": [{"name": "hidden", "text": ALL, "hint": ALL}]}


@contextmanager
def looked_at(browser: Browser, *, policy: bool) -> Iterator[Page]:
    """A page on which nothing may run that it did not bring along, however long one looks at it."""
    context: BrowserContext = browser.new_context(bypass_csp=not policy)
    context.set_default_timeout(10_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: faults.append(str(error)))
    if policy:
        page.on(
            "console",
            lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None,
        )
    try:
        yield page
        assert faults == []
    finally:
        context.close()


def assert_nothing_ran(page: Page) -> None:
    """Neither what was loaded ran, nor what happens when people point, open and press."""
    page.evaluate(
        """() => {
            for (const one of document.querySelectorAll("details")) one.open = true;
            for (const one of document.querySelectorAll("main *")) {
                for (const kind of ["mouseover", "mouseenter", "focus"]) one.dispatchEvent(new Event(kind));
            }
        }"""
    )
    page.wait_for_timeout(50)
    assert page.evaluate(SEARCH) == [None]


# The report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = list(HOSTILE.values())
    shown = [
        Shown(text, text, f"p {text}", ("male", f"others:{text}"), f"filtered:{text}", f"error:{text}")
        for text in words
    ]
    shown += [
        Shown(f"{number} {text}", words[0], f"p {text}", ("male", "male"), "male", "female")
        for number, text in enumerate(words)
    ]
    judge = {
        "kind": "vlm-judge",
        "parameters": {"attribute": "hostile_look", "model": ALL, "base_url": "http://127.0.0.1:9/v1"},
    }
    results = write_study(
        tmp_path_factory.mktemp("report") / NAME,
        images=shown,
        words={f"p {text}": f"{text} {ALL}" for text in words},
        raw=ALL,
        name=ALL,
        attribute="hostile_look",
        definition=definition(),
        detectors=judge,
        annotators=(NAME, ALL),
        files=lambda number: f"files/{number}{FILES[number % len(FILES)]}",
        question=ALL,
        author=ALL,
        date=ALL,
        display_names={"good": ALL, **{text: f"{text} shown" for text in words[:3]}},
    )
    svg = results.parent / "images" / "files" / f"0{FILES[0]}"
    svg.write_text(SVG, encoding="utf-8")
    return Results.open(results).report(settings=ReportSettings(note=ALL, pictures="link")).page.parent


@pytest.mark.parametrize("policy", [True, False], ids=["as it is", "without its policy"])
def test_a_report_runs_nothing_of_what_it_reports(report: Path, browser: Browser, policy: bool) -> None:
    with looked_at(browser, policy=policy) as page:
        pages = sorted(report.glob("*.html"))
        assert pages
        for file in pages:
            page.goto(file.as_uri())
            assert ALL.split()[0] in page.inner_text("body")
            assert_nothing_ran(page)
        page.goto((report / "images.html").as_uri())
        page.locator(".card").first.wait_for()
        page.locator("#detector").select_option("poor")
        page.get_by_label("Search").fill("onerror")
        page.locator(".chips").get_by_text("onerror").wait_for()
        assert_nothing_ran(page)
        page.get_by_role("button", name="Clear all").click()
        ids = [card.get_attribute("data-image") for card in page.locator(".card").all()]
        for name in ids:
            page.locator(".card").nth(ids.index(name)).click()
            page.get_by_role("dialog").get_by_role("heading", level=2).wait_for()
            assert_nothing_ran(page)
            page.keyboard.press("Escape")
        for text in HOSTILE.values():
            page.goto(f"{(report / 'images.html').as_uri()}#search={text}&image={text}&verdict.{text}={text}")
            page.reload()
            page.locator("#toolbar .found").wait_for()
            assert_nothing_ran(page)


RIGHT_TO_LEFT = "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627"
LONG = "x" * 200


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study beside another of the same images, with a page on Lyu 2025."""
    folder, results = tmp_path_factory.mktemp("beside"), []
    for study, name in enumerate((ALL, RIGHT_TO_LEFT + LONG)):
        shown = [
            Shown(
                f"{model[:9]} {prompt} {number}",
                model,
                f"{prompt} {ALL}",
                (("male", "female")[number % 2],) * 2,
                ("male", "female")[(number + study) % 2],
                f"filtered:{ALL}",
            )
            for model in ("sdxl", ALL, RIGHT_TO_LEFT, LONG)
            for prompt in range(2)
            for number in range(4)
        ]
        words = {f"{prompt} {ALL}": text for prompt, text in enumerate((RIGHT_TO_LEFT, LONG))}
        shown_as = {"good": ALL, "poor": RIGHT_TO_LEFT + LONG}
        results.append(
            write_study(folder / str(study), images=shown, words=words, name=name, display_names=shown_as)
        )
    settings = ReportSettings(pictures="none", figures=False, beside=ResultFolder.open(results[0]))
    return Results.open(results[1]).report(settings=settings).page.parent


@pytest.mark.parametrize("policy", [True, False], ids=["as it is", "without its policy"])
def test_names_are_text_beside_another_study_and_no_page_is_wider_than_a_phone(
    beside: Path, browser: Browser, policy: bool
) -> None:
    with looked_at(browser, policy=policy) as page:
        page.set_viewport_size({"width": 390, "height": 800})
        for name in ("index", "beside", "lyu2025"):
            page.goto((beside / f"{name}.html").as_uri())
            assert_nothing_ran(page)
            said = page.inner_text("body")
            for text in (HOSTILE["template"], RIGHT_TO_LEFT, LONG):
                assert text in said, name
            assert overflow(page) <= 0, name


def test_a_reports_drawings_run_nothing_by_themselves(report: Path, browser: Browser) -> None:
    drawings = sorted(report.rglob("*.svg"))
    assert len(drawings) > 3
    with looked_at(browser, policy=False) as page:
        for file in drawings:
            page.goto(file.as_uri())
            assert page.evaluate(SEARCH) == [None], file.name


# The desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelServer]:
    import yaml

    words = list(HOSTILE.values())
    folder = write_image_set(tmp_path_factory.mktemp("desk") / NAME, len(words))
    (folder / "labels.csv").unlink()
    files = [f"images/{number}{FILES[number % len(FILES)]}" for number in range(len(words))]
    for number, file in enumerate(files):
        picture(number).save(folder / file, "PNG")
    (folder / files[0]).write_text(SVG, encoding="utf-8")
    rows = [(text, file, f"{text} {ALL}", f"p {text}") for text, file in zip(words, files, strict=True)]
    write_csv(folder / "images.csv", IMAGE_COLUMNS, rows)
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, [(f"p {text}", text, ALL, ALL) for text in words])
    (folder / "attributes").mkdir()
    own = {"name": "hostile_look", **definition()}
    (folder / "attributes" / "hostile_look.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    guideline = folder.parent / "guideline.md"
    blocks = [f"# {text}\n\n{text}\n\n- {text}\n\n> {text}\n\n| a |\n|---|\n| {text} |\n" for text in words]
    guideline.write_text("\n".join(blocks), encoding="utf-8")
    images = ImageSet.load(folder, require_labels=False)
    settings = DeskSettings(calibration_images=0, attributes=("hostile_look",))
    with LabelStore.open(folder / "labelling.sqlite", images, settings=settings) as store:
        for annotator in (NAME, "ben"):
            for text in words[1:]:
                label = "male" if annotator == "ben" else "others"
                choice = {"hostile_look": Choice(label, note=f"{text} {ALL}"[:900])}
                store.record(annotator, Answer(str(uuid4()), text, choice))
    with label_server(folder, NAME, "ben", options=("--guidelines", str(guideline))) as server:
        yield server


@pytest.mark.parametrize("policy", [True, False], ids=["as it is", "without its policy"])
def test_the_desk_runs_nothing_of_what_it_shows(desk: LabelServer, browser: Browser, policy: bool) -> None:
    with looked_at(browser, policy=policy) as page:
        page.goto(desk.address)
        page.get_by_role("link", name=NAME).wait_for()
        assert_nothing_ran(page)
        page.goto(f"{desk.links['ben']}")
        page.locator("#pictures *").first.wait_for()  # the drawing, which cannot be shown
        for _ in range(len(HOSTILE) + 1):
            page.wait_for_timeout(30)
            assert_nothing_ran(page)
            page.keyboard.press("ArrowLeft")
        page.keyboard.press("g")
        page.locator("#guidelines").get_by_text(RUN).first.wait_for()
        assert_nothing_ran(page)
        page.goto(f"{desk.address}/agreement")
        page.locator('#live[data-state="live"]').wait_for()
        assert NAME in page.locator("#annotators").inner_text()
        assert_nothing_ran(page)
        page.goto(f"{desk.address}/adjudication")
        page.locator("#pictures img").first.wait_for()
        for _ in HOSTILE:
            page.wait_for_timeout(30)
            assert_nothing_ran(page)
            page.keyboard.press("n")
        for text in HOSTILE.values():
            for place in ("/adjudication", "/agreement", "/label/ben"):
                page.goto(f"{desk.address}{place}?question={text}&t2i_model={text}&kind={text}#{text}")
                page.wait_for_timeout(30)
                assert_nothing_ran(page)
            page.goto(f"{desk.address}/label/{text.replace('/', '%2F')}")
            assert_nothing_ran(page)


def test_a_drawing_that_calls_itself_a_picture_is_not_handed_out(desk: LabelServer, browser: Browser) -> None:
    from urllib.parse import quote

    with looked_at(browser, policy=False) as page:
        reply = page.goto(f"{desk.address}/images/{quote(HOSTILE['script'], safe='')}")
        assert reply is not None
        assert reply.status == 422
        assert reply.headers["content-type"] == "application/json"
        assert page.evaluate("window.hacked") is None
        assert SVG[:20] not in page.content()


def test_the_search_finds_what_runs(browser: Browser) -> None:
    """The tests above would see it: each of these texts, put into a page as HTML, is found."""
    for name in ("script", "end of a script", "comment", "handler", "drawing", "frame", "text area"):
        page = browser.new_page()
        page.set_content(f"<p>{HOSTILE[name]}</p>")
        page.wait_for_timeout(50)
        assert page.evaluate(SEARCH) != [None], name
        page.close()
    for text in (f'<b title="{HOSTILE["attribute"]}">', f"<b title='{HOSTILE['quote']}'>"):
        page = browser.new_page()
        page.set_content(text)
        assert page.evaluate(SEARCH) != [None], text
        page.close()
    page = browser.new_page()
    page.set_content(f'<a href="{HOSTILE["address"]}">x</a>')
    assert page.evaluate(SEARCH) != [None]
    page.close()
