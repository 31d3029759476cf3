"""The answer of a study: at most 12 sentences, those that people came for first, each with the rows that it says.

In order: who is shown; the most one-sided prompts; the model bias score beside what chance gives; the test of
fairness; T2I models told apart; the detector closest to the labels and how far off it is; the verdict with its
tolerance; detectors shown to be worse, or below chance; how much depends on who labelled; the larger cause;
what to do next; what is left out. A sentence is written only if its rows exist, so without labels it says what
detectors report and that nobody has checked them. Numbers stand in rows; one is made of a row here: how many times
as many images would decide an open verdict (`_times`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from detector_bench_next.attributes import ALL, Attribute
from detector_bench_next.evaluate import told_below_chance
from detector_bench_next.results import Results

MOST = 12
"""Sentences at most."""
NAMED = 4
"""Names at most in one list."""

Row = dict[str, Any]


class Sentence(NamedTuple):
    """A sentence, and the rows whose numbers it says; `table` in each row names the long table."""

    text: str
    rows: list[Row]


def answer(results: Results, attribute: str) -> list[Sentence]:
    """Sentences about one attribute, in the order of this module's docstring."""
    said = _Answer(results, results.attributes[attribute])
    parts: Sequence[Callable[[], Iterator[Sentence]]] = (
        *(said.shares, said.prompts, said.score, said.fair, said.models_apart, said.closest, said.verdict),
        *(said.worse, said.labellers, said.causes, said.next_step, said.left_out),
    )
    return [sentence for part in parts for sentence in part()][:MOST]


def text(results: Results) -> str:
    """The answer of every attribute, a sentence a line; attributes are named where there are several."""
    lines: list[str] = []
    for name, attribute in results.attributes.items():
        lines += [f"{attribute.title}:"] if len(results.attributes) > 1 else []
        lines += [sentence.text for sentence in answer(results, name)]
    return "\n".join(lines)


def points(value: float, decimals: int = 2) -> str:
    """A score for a sentence: never -0.00, and less than the last digit is said so."""
    text = f"{abs(value):.{decimals}f}"
    if value and float(text) == 0:
        return f"less than {10**-decimals:.{decimals}f}"
    return ("\N{MINUS SIGN}" if value < 0 else "") + text


def percent(share: float) -> str:
    """A share in whole per cent; shares that are not 0 or 1 are not rounded to these."""
    whole = round(100 * share)
    if whole == 0 and share > 0:
        return "less than 1 %"
    return "more than 99 %" if whole == 100 and share < 1 else f"{whole} %"


def probability(p: float) -> str:
    """A p value, as it stands in a sentence."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """Names in a sentence: `a, b and c`, or the first few and how many more."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


class _Answer:
    """Rows of one attribute, and a method for each sentence."""

    def __init__(self, results: Results, attribute: Attribute) -> None:
        self.results, self.attribute, self.words = results, attribute, attribute.words
        self.names = {
            c.name: c.text if c.text[1:] != c.text[1:].lower() else c.text.lower() for c in attribute.classes
        }
        level = float(results.settings.get("level", 0.95))
        self.level, self.alpha = f"{100 * level:g} % interval", round(1 - level, 12)
        cells = results.cells(attribute.name)
        self.detectors = list(cells.raters[: cells.detectors])
        self.models = list(dict.fromkeys(cells.pairs["t2i_model"].astype("str")))
        self.swapped = told_below_chance(results.metrics, attribute)
        bias = self.rows("t2i_models")
        self.whole = {
            m: [r for r in bias if r["t2i_model"] == m and r["category"] == r["prompt_id"] == ALL]
            for m in self.models
        }
        self.single = [r for r in bias if r["prompt_id"] != ALL]
        self.primary = str(results.settings.get("primary", "prompt_bias_score_difference"))
        ranks = self.rows("ranks", t2i_model=ALL, metric=self.primary)
        keeps = {d for d in self.detectors if (r := self.metric("images_clear", detector=d)) and r["value"]}
        self.ranks = [
            r for r in ranks if r["detector"] in keeps - self.swapped.keys() and not math.isnan(r["score"])
        ]
        self.labelled = any(r["estimator"] != "detectors" for own in self.whole.values() for r in own)

    def rows(self, table: str, **where: str) -> list[Row]:
        """Rows of a long table about the attribute, each with the table's name."""
        found = self.results.table(table)
        keep = pd.Series(True, found.index)  # noqa: FBT003 - a value, not a flag
        for column, word in {"attribute": self.attribute.name, **where}.items():
            keep &= found[column].astype("str") == word
        return [{"table": table, **{str(k): v for k, v in row.items()}} for row in found[keep].to_dict("records")]

    def metric(self, name: str, **where: str) -> Row | None:
        """Row of a metric that has a value."""
        found = self.results.row(name, attribute=self.attribute.name, **where)
        return {"table": "metrics", **found} if found and not math.isnan(found["value"]) else None

    def of_model(self, model: str, quantity: str) -> Row | None:
        """Row of a T2I model's own number, not of these images alone."""
        own = (r for r in self.whole[model] if r["quantity"] == quantity and r["estimand"] != "these_images")
        return next((r for r in own if not math.isnan(r["value"])), None)

    def interval(self, low: float, high: float, say: Callable[[float], str]) -> str:
        """The ends of an interval in parentheses."""
        return f"({self.level} {say(low)} to {say(high)})"

    # ------------------------------------------------------------ the T2I model

    def shares(self) -> Iterator[Sentence]:
        """Share of each class, by labels or by detectors."""
        for model in self.models if len(self.models) == 1 else []:
            own = {c: r for c in self.names if (r := self.of_model(model, f"class_share_{c}"))}
            if not own:
                yield self._no_score(model)
                continue
            first, *rest = sorted(own, key=lambda c: -own[c]["value"])
            if own[first]["estimator"] == "detectors":
                yield from self._reported(model, first)
                continue
            others = [f"{percent(own[c]['value'])} as {self.names[c]}" for c in rest]
            more = f" and {listed(others)}" if others else ""
            low = self.metric("label_share_low_quality")
            unclear = (
                f"; {percent(low['value'])} of the labelled images cannot be judged"
                if low and low["value"]
                else ""
            )
            other = " on other prompts of this kind" if own[first]["estimand"] == "prompts" else ""
            yield Sentence(
                f"Of the images by {model}{other} whose {self.words} can be judged, "
                f"{percent(own[first]['value'])} are perceived as {self.names[first]} "
                f"{self.interval(own[first]['ci_low'], own[first]['ci_high'], percent)}{more}{unclear}.",
                [*own.values(), *([low] if low else [])],
            )
        if len(self.models) > 1:
            yield from self._shares_of_models()

    def _no_score(self, model: str) -> Sentence:
        clear = self.metric("images_clear", t2i_model=model)
        if clear and clear["value"]:
            return Sentence(
                f"Only {clear['value']:.0f} labelled image of {model} can be judged: no score.", [clear]
            )
        return Sentence(f"No image of {model} can be judged: it has no score.", [])

    def _shares_of_models(self) -> Iterator[Sentence]:
        of = {m: {c: r for c in self.names if (r := self.of_model(m, f"class_share_{c}"))} for m in self.models}
        known = {m: own for m, own in of.items() if own and next(iter(own.values()))["estimator"] != "detectors"}
        if known:
            total = {c: sum(own[c]["value"] for own in known.values() if c in own) for c in self.names}
            first = max(total, key=lambda c: total[c])
            own = sorted((r for o in known.values() if (r := o.get(first))), key=lambda r: r["value"])
            told = [
                f"{percent(r['value'])} by {r['t2i_model']} {self.interval(r['ci_low'], r['ci_high'], percent)}"
                for r in (own if len(own) <= NAMED else [own[0], own[-1]])
            ]
            among = "" if len(own) <= NAMED else f" (lowest and highest of {len(own)} T2I models)"
            yield Sentence(
                f"Of the images whose {self.words} can be judged, perceived as {self.names[first]}: "
                f"{', '.join(told)}{among}.",
                own,
            )
        elif self.detectors and any(of.values()):
            yield from self._reported(
                "", max(self.names, key=lambda c: sum(o[c]["value"] for o in of.values() if c in o))
            )
        for model in (m for m, own in of.items() if known and not own):
            yield self._no_score(model)

    def _reported(self, model: str, first: str) -> Iterator[Sentence]:
        """What detectors report where nobody labelled."""
        where = {"variant": "detector_only", **({"t2i_model": model} if model else {})}
        own = [r for d in self.detectors if (r := self.metric(f"class_share_{first}", detector=d, **where))]
        if own:
            share = _range(own, percent)
            who = f"{own[0]['detector']} calls" if len(own) == 1 else f"{len(own)} detectors call"
            yield Sentence(
                f"{who} {share} of the clear images{f' by {model}' if model else ''} {self.names[first]}; nobody "
                "has checked them, so their error is unknown.",
                own,
            )

    def prompts(self) -> Iterator[Sentence]:
        """The most one-sided prompts, by the class whose shares differ most."""
        spread = {}
        for c in self.names:
            own = [r for r in self.single if r["quantity"] == f"class_share_{c}" and not math.isnan(r["value"])]
            ends = min(own, key=_value, default={}), max(own, key=_value, default={})
            if len({r.get("prompt_id") for r in ends}) == 2:
                spread[c] = ends
        if spread:
            c = max(spread, key=lambda c: spread[c][1]["value"] - spread[c][0]["value"])
            place = "{prompt_id}, {t2i_model}" if len(self.models) > 1 else "{prompt_id}"
            low, high = (f"{percent(r['value'])} ({place.format(**r)})" for r in spread[c])
            text = f"By prompt, the share perceived as {self.names[c]} goes from {low} to {high}."
            yield Sentence(text, list(spread[c]))

    def score(self) -> Iterator[Sentence]:
        """The model bias score, interval first, and what a fair T2I model shows."""
        own = [(m, self.of_model(m, "model_bias_score")) for m in self.models]
        known = [(m, r) for m, r in own if r and r["estimator"] != "detectors" and not math.isnan(r["ci_low"])]
        known.sort(key=lambda mr: -mr[1]["value"])
        shown = known if len(known) < 3 else [known[0], known[-1]]
        told = [
            f"{m} between {points(r['ci_low'])} and {points(r['ci_high'])} (middle {points(r['value'])}; by "
            f"chance alone {points(r['by_chance'])})"
            for m, r in shown
        ]
        if told:
            kind = "highest and lowest of all T2I models: " if len(known) > 2 else ""
            yield Sentence(
                f"Model bias score: {kind}{', '.join(told)}; a fair T2I model has 0, and chance is what it would "
                "show with these labels.",
                [r for _, r in shown],
            )
        without = [m for m, r in own if r is None and self.of_model(m, f"class_share_{next(iter(self.names))}")]
        if without and self.labelled:
            rows = [r for m in without if (r := self.of_model(m, f"class_share_{next(iter(self.names))}"))]
            yield Sentence(
                f"No model bias score of {listed(without)}: at least 4 labels a prompt are needed, more where "
                "many images are low quality.",
                rows,
            )

    def fair(self) -> Iterator[Sentence]:
        """The test that every prompt is balanced."""
        own = [(m, r) for m in self.models if (r := self.of_model(m, "model_bias_score")) and r["p_value"] >= 0]
        biased = [(m, r) for m, r in own if r["p_value"] <= self.alpha]
        rest = [(m, r) for m, r in own if r["p_value"] > self.alpha]
        said = []
        if biased:
            p = max(r["p_value"] for _, r in biased)
            said.append(f"{listed([m for m, _ in biased])}: more bias than chance explains ({probability(p)})")
        if rest:
            p = min(r["p_value"] for _, r in rest)
            said.append(f"{listed([m for m, _ in rest])}: chance could explain all of it ({probability(p)})")
        if said:
            yield Sentence("; ".join(said) + ".", [r for _, r in own])

    def models_apart(self) -> Iterator[Sentence]:
        """T2I models whose model bias scores are told apart."""
        own = [r for r in self.rows("t2i_model_comparisons", quantity="model_bias_score") if r["p_value"] >= 0]
        apart = sorted((r for r in own if r["p_value"] <= self.alpha), key=lambda r: -abs(r["difference"]))
        if apart:
            told = []
            for r in apart[: NAMED - 1]:
                up = r["difference"] > 0
                more, less = (r["first"], r["second"]) if up else (r["second"], r["first"])
                low, high = sorted((abs(r["ci_low"]), abs(r["ci_high"])))
                told.append(
                    f"{more} than {less} by {points(abs(r['difference']))} ({points(low)} to {points(high)})"
                )
            more = f", and {len(apart) - len(told)} more pairs" if len(apart) > len(told) else ""
            yield Sentence(f"More one-sided: {'; '.join(told)}{more}.", apart[: NAMED - 1])
        elif own:
            widest = max(own, key=lambda r: abs(r["difference"]))
            yield Sentence(
                f"The T2I models are not told apart by their model bias score (largest difference "
                f"{points(abs(widest['difference']))}, {widest['first']} and {widest['second']}).",
                [widest],
            )

    # ------------------------------------------------------------ detectors

    def _best(self) -> Row | None:
        """Row of the detector that is ranked first by the study's primary metric."""
        return min(self.ranks, key=lambda r: r["rank"], default=None)

    def closest(self) -> Iterator[Sentence]:
        """The detector that is closest to the labels, and how far off it is."""
        best, ranks = self._best(), self.ranks
        if best is None:
            return
        own = self.metric(self.primary, detector=best["detector"])
        worse = str(best["better_than"]).split()
        alike = [r["detector"] for r in ranks if r is not best and r["detector"] not in worse]
        if own is None:
            return
        what = {
            "prompt_bias_score_difference": "its prompt bias scores are off by {} on average{}",
            "model_bias_score_difference": "its model bias score is off by {}{}",
        }.get(self.primary, self.primary.replace("_", " ") + " {}{}")
        known = not math.isnan(own["ci_low"])
        ends = " " + self.interval(own["ci_low"], own["ci_high"], points) if known else ""
        others = f"; not told apart from it: {listed(alike)}" if alike else ""
        said = f"{best['detector']} comes closest to the labels" if len(ranks) > 1 else best["detector"]
        yield Sentence(
            f"{said}: {what.format(points(own['value']), ends)}{others}.",
            [own, best, *(r for r in ranks if r["detector"] in alike)],
        )

    def verdict(self) -> Iterator[Sentence]:
        """The verdict on each detector's model bias score, with the study's tolerance."""
        own = [r for r in self.rows("verdicts", t2i_model=ALL) if r["detector"] not in self.swapped]
        own = [r for r in own if not math.isnan(r["error"])]
        if not own:
            return
        tolerance = points(own[0]["tolerance"], 2)
        said = []
        for word, text in (
            ("good", "good enough"),
            ("good if it does not shift balanced prompts", "good enough if they do not shift balanced prompts"),
            ("too far", "too far off"),
            ("open", "undecided"),
        ):
            if names := [r["detector"] for r in own if r["word"] == word]:
                said.append(f"{listed(names)} {text}" if len(names) < len(own) or len(own) == 1 else f"all {text}")
        more = [math.ceil(10 * f) / 10 for r in own if r["word"] == "open" and (f := _times(r)) < 100]
        hint = (
            f"; about {min(more):.{min(more) < 10:d}f} times as many images of these prompts could decide one more"
            if more
            else ""
        )
        yield Sentence(
            f"Model bias scores by detectors ({tolerance} off counts as good enough): {'; '.join(said)}{hint}.",
            own,
        )

    def worse(self) -> Iterator[Sentence]:
        """Detectors shown to be worse than the closest one, and those below chance."""
        for detector, line in self.swapped.items():
            row = self.metric("accuracy", detector=detector)
            yield Sentence(line[:1] + line[1:], [row] if row else [])
        if best := self._best():
            worse = [name for name in str(best["better_than"]).split() if name not in self.swapped]
            if worse:
                yield Sentence(f"Shown to be worse than {best['detector']}: {listed(worse)}.", [best])

    def labellers(self) -> Iterator[Sentence]:
        """Agreement of annotators, and how far the model bias score depends on who labelled."""
        kappas = [
            r
            for r in self.rows(
                "agreement", raters="two_annotators", statistic="cohen_kappa", label=ALL, category=ALL
            )
            if r["t2i_model"] == ALL and not math.isnan(r["value"])
        ]
        if not kappas:
            return
        kappa = _range(kappas, points)
        best = self._best()
        doubt = self.rows("label_doubt", metric="model_bias_score_deviation", t2i_model=ALL, category=ALL)
        doubt = [r for r in doubt if best and r["detector"] == best["detector"] and not math.isnan(r["value"])]
        by = ""
        if len(doubt) > 1:
            by = f"; by who labelled, the model bias score of {doubt[0]['detector']} is {_range(doubt, _too)}"
        yield Sentence(f"Annotators agree with Cohen's kappa {kappa}{by}.", [*kappas, *doubt])

    def causes(self) -> Iterator[Sentence]:
        """Whether filtering or classification makes the larger part of the errors."""
        own = [
            r
            for r in self.rows("causes", t2i_model=ALL, category=ALL, error_metric="prompt_bias_score_difference")
            if abs(r["filtering"]) + abs(r["classification"]) > 0  # NaN is not
        ]
        if own:
            most = [r["detector"] for r in own if abs(r["filtering"]) > abs(r["classification"])]
            rest = [r["detector"] for r in own if r["detector"] not in most]
            said = [
                f"{what} for {listed(who)}" for what, who in (("filtering", most), ("classification", rest)) if who
            ]
            text = f"Larger part of the bias error: {', '.join(said)} (an accounting, not a test)."
            yield Sentence(text, own)

    # ------------------------------------------------------------ what to do next

    def next_step(self) -> Iterator[Sentence]:
        """The step that would make the answer surer."""
        rows = [r for m in self.models if (r := self.of_model(m, "model_bias_score"))]
        labels, images = self.metric("images"), sum(int(r["images"]) for r in rows if r["t2i_model"] != ALL)
        if not self.labelled:
            yield Sentence("Next: label 100 images drawn at random; without labels the error is unknown.", [])
        elif labels and images > labels["value"]:
            yield Sentence(
                f"Next: {labels['value']:,.0f} of {images:,} images have a label; four times as many labels halve "
                "the intervals.",
                [labels, *rows],
            )
        elif not self.rows("agreement", raters="two_annotators"):
            yield Sentence(
                "Next: let a second annotator label the same images; with one nobody knows how far the labels can "
                "be trusted.",
                [],
            )
        elif labels:
            yield Sentence(
                "Next: every image has a label; narrower intervals need more images of each prompt.", [labels]
            )

    def left_out(self) -> Iterator[Sentence]:
        """Prompts without a clear image, images without an answer, detectors that could not run."""
        said, rows = [], []
        for model in self.models:
            row = self.of_model(model, "model_bias_score")
            if row and row["n_left_out"] > 0:
                said.append(f"{row['n_left_out']:.0f} prompts of {model} without a clear image")
                rows.append(row)
        for d in self.detectors:
            variant = {} if self.labelled else {"variant": "detector_only"}
            failed, missing = (self.metric(f"images_{w}", detector=d, **variant) for w in ("error", "not_run"))
            for row, word in ((failed, "errors"), (missing, "images not run")):
                if row and row["value"] > 0:
                    said.append(f"{row['value']:,.0f} {word} of {d}")
                    rows.append(row)
        others = self.metric("images_others")
        if others and others["value"] > 0:
            said.append(f"{others['value']:,.0f} images labelled others, which are in no class")
            rows.append(others)
        if said:
            yield Sentence(f"Left out: {listed(said)}.", rows)


def _range(rows: Sequence[Row], say: Callable[[float], str]) -> str:
    low, high = say(min(map(_value, rows))), say(max(map(_value, rows)))
    return low if low == high else f"{low} to {high}"


def _too(deviation: float) -> str:
    return f"{percent(abs(deviation))} too {'high' if deviation > 0 else 'low'}"


def _value(row: Row) -> float:
    return float(row["value"])


def _times(row: Row) -> float:
    """How many times as many images bring the interval of an open verdict inside, or outside, the tolerance."""
    half = (row["ci_high"] - row["ci_low"]) / 2
    room = abs(row["tolerance"] - abs(row["error"]))
    return (half / room) ** 2 if room > 0 else math.inf
