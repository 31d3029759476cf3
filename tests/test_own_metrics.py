"""Metrics of one's own: numbers against built-in ones, bad files, packages."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from joint_studies import made_up
from numpy.typing import NDArray
from test_registry import install, python

from detector_bench import metrics
from detector_bench.errors import ConfigError
from detector_bench.evaluation.comparison import ComparisonFamily, Contest
from detector_bench.metrics import METRICS, NClear, Score, metric
from detector_bench.metrics.bias import prompt_bias_score_error
from detector_bench.metrics.bootstrap import Unit, leave_one_prompt_out, resample
from detector_bench.metrics.cell_metrics import asks_every_cell, resampled_metrics
from detector_bench.metrics.influence import Influences, comparable_metrics, metric_values
from detector_bench.plugins import load_plugins


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test declares is gone after it."""
    monkeypatch.setattr(METRICS._registry, "_entries", dict(METRICS._registry._entries))


# Built-in metrics once more, as somebody else's.


def own_share(counts: NDArray[np.float64]) -> Score:
    return metrics.accuracy(counts)


def own_number(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return metrics.accuracy(counts).value


def own_recall(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return metrics.recall_per_class(counts).value


def own_mean(counts: NDArray[np.float64], n_clear: NClear) -> NDArray[np.float64]:
    return prompt_bias_score_error(counts, n_clear=n_clear).value


BUILT_IN = {
    "own_share": "accuracy",
    "own_number": "accuracy",
    "own_recall_0": "recall_0",
    "own_mean": "prompt_bias_score_difference",
}


@pytest.fixture
def again() -> None:
    metric(over="images", definition="again", share=True)(own_share)
    metric(over="images", definition="again")(own_number)
    metric(over="images", definition="again", per_class=True)(own_recall)
    metric(over="prompts", definition="again", better="lower", kind="score", highest=2)(own_mean)


def test_what_asks_for_every_cell_is_found_out() -> None:
    built_in = [each for each in resampled_metrics(2) if each.over == "images"]
    assert len(built_in) > 8
    # They keep to the fast layout; a metric that asks for more would be drawn beside it, not wrongly.
    assert not any(asks_every_cell(each) for each in built_in)

    def share_without_verdict(counts: NDArray[np.float64]) -> Score:
        images = counts.sum(axis=(-2, -1))
        return Score(metrics.divide(counts[..., -1].sum(axis=-1), images), images, 0 * images)

    share_without_verdict.__module__ = "detector_bench.metrics.made_up"
    metric(over="images", share=True, definition="images without a verdict / images")(share_without_verdict)
    assert asks_every_cell(METRICS["share_without_verdict"])
    joint = made_up(images=20, errors=0.2)
    drawn = resample(joint, resamples=60).detectors["share_without_verdict"]
    value = METRICS["share_without_verdict"].scores(joint.counts(), scopes=None, n_clear="detector").value
    assert drawn[0, 0].mean(axis=-1) == pytest.approx(value, abs=0.03)


@pytest.mark.usefixtures("again")
class TestNumbersOfOwnMetrics:
    @pytest.mark.parametrize("n_clear", ["detector", "human"])
    @pytest.mark.parametrize("unit", ["image", "prompt"])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_resamples_are_those_of_the_built_in(self, unit: Unit, classes: int, n_clear: NClear) -> None:
        joint = made_up(classes=classes, prompts=6, errors=0.1, seed=classes)
        drawn = resample(joint, resamples=60, unit=unit, n_clear=n_clear, prompts=unit == "image")
        without = leave_one_prompt_out(joint, n_clear=n_clear)
        for own, built_in in BUILT_IN.items():
            for found in (drawn.detectors, without.detectors):
                np.testing.assert_allclose(found[own], found[built_in], rtol=1e-5, atol=1e-6)
        if unit == "image":
            np.testing.assert_allclose(
                drawn.prompts["own_mean"], drawn.prompts["prompt_bias_score_difference"], rtol=1e-5, atol=1e-6
            )

    def test_the_built_in_are_drawn_as_without_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Prompts of more images than are drawn one by one get normal counts, which more numbers could disturb.
        joint = made_up(images=40, errors=0.1)
        beside = resample(joint, resamples=60, one_by_one=10)
        entries = {name: info for name, info in METRICS.items() if not name.startswith("own_")}
        monkeypatch.setattr(METRICS._registry, "_entries", entries)
        alone = resample(joint, resamples=60, one_by_one=10)
        assert beside.detectors.keys() > alone.detectors.keys()
        for name, values in alone.detectors.items():
            np.testing.assert_array_equal(beside.detectors[name], values)

    @pytest.mark.parametrize("unit", ["image", "prompt"])
    def test_influences_are_those_of_the_built_in(self, unit: Unit) -> None:
        joint = made_up(images=40, prompts=6, errors=0.05)
        influences = Influences(joint, unit)
        for own, built_in, alike, close in (
            ("own_share", "accuracy", 1e-12, 1e-12),
            ("own_number", "accuracy", 0.02, 0.02),
            # Where the scores of a prompt are equal, or within one image, the size of their distance has a kink.
            ("own_mean", "prompt_bias_score_difference", 0.6, 0.1),
        ):
            ours, theirs = influences.of(own), influences.of(built_in)
            assert ours.value == pytest.approx(theirs.value)
            found, expected, apart = (
                np.sqrt((each**2).sum(axis=-1))
                for each in (ours.by_unit, theirs.by_unit, ours.by_unit - theirs.by_unit)
            )
            assert found == pytest.approx(expected, rel=close)
            assert (apart < alike * expected).all()

    def test_comparisons_by_the_size_of_what_is_best_at_0(self) -> None:
        def own_excess(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            named, shown = counts[..., 0].sum(axis=-1), counts[..., 0, :].sum(axis=-1)
            return metrics.divide(named - shown, counts.sum(axis=(-2, -1)))

        metric(over="images", definition="named - shown", better="closest to zero", lowest=-1)(own_excess)
        joint = made_up(images=60, prompts=6, detectors=3, right=0.6)
        family = ComparisonFamily.of([Contest(joint, ("a", "b", "c"))], metrics=["own_excess"])
        values = metric_values(joint, ["own_excess"], n_clear="detector")["own_excess"]
        test = family.test("own_excess", 0, 2)
        assert test.difference == pytest.approx(abs(values[0]) - abs(values[2]))
        assert test.ci_low < test.difference < test.ci_high

    def test_all_are_accepted_by_rank(self) -> None:
        assert {"own_share", "own_number", "own_mean"} <= set(comparable_metrics())
        assert "own_recall_<class>" not in comparable_metrics()


def own_file(folder: Path, body: str, *, options: str = "over='images'", name: str = "tried") -> Path:
    folder.mkdir(exist_ok=True)
    text = dedent(
        f"""
        import numpy as np
        import detector_bench as db

        @db.metric({options})
        def {name}(counts):
            'Something: somehow.'
            {body}
        """
    )
    (folder / "own.py").write_text(text, encoding="utf-8")
    return folder / "own.py"


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        (
            "return counts[0, 0]",
            "over='images'",
            r"of shape \(2, 3, 4, 4\) it makes numbers of shape \(4, 4\) \(acc.*\(2, 3\)",
        ),
        (
            "return counts.sum()",
            "over='prompts'",
            r"it makes numbers of shape \(\) \(accepted: \(2, 3\), one for each",
        ),
        ("return 'many'", "over='images'", r"it makes no number: ValueError: could not convert"),
        (
            "return (counts * np.ones((4, 4))).sum(axis=(-2, -1)) / 9_999",
            "over='images'",
            r"an attribute of 3 classes, it makes no number: .*two_classes=True",
        ),
        ("return counts[..., 0, 0]", "over='images'", r"a value of \d+ \(accepted: 0 to 1, as its `lowest`"),
        ("return 1 / counts.sum(axis=(-2, -1))", "over='images'", r"it divides by 0 \(accepted: NaN where"),
        ("counts[:] = 0; return counts[..., 0, 0]", "over='images'", r"it changes the counts that it is given"),
        (
            "return counts[..., 0, 0] / 99",
            "over='images', share=True",
            r"it returns ndarray \(accepted: a Score, whose n",
        ),
        ("return 0", "over='image'", r"over: 'image' \(accepted: images, prompts\)"),
        (
            "return 0",
            "over='images', better='more'",
            r"better: 'more' \(accepted: higher, lower, closest to zero, none\)",
        ),
        ("return 0", "over='images', colum='x'", r"'colum': did you mean 'column'"),
        (
            "return 0",
            "over='images', name='Gap 1'",
            r"metric name 'Gap 1' \(accepted: small letters, digits and _",
        ),
        (
            "return 0",
            "over='images', name='accuracy'",
            r"the name 'accuracy' is taken by the metric 'accuracy' \(accepted: a name of its own\)",
        ),
        (
            "return counts[..., 0, 0] / 99",
            "over='images', name='recall_female'",
            r"the name 'recall_female' is taken by the metric 'recall_<class>'",
        ),
    ],
)
def test_a_metric_that_cannot_work_is_one_line(tmp_path: Path, body: str, options: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load_plugins([own_file(tmp_path, body, options=options)])
    assert str(raised.value).startswith(f"--plugin {tmp_path / 'own.py'}, line ")
    assert "\n" not in str(raised.value)
    assert "tried" not in METRICS


def test_a_metric_without_a_definition_says_where_it_stands() -> None:
    with pytest.raises(
        ConfigError, match=r"metric 'own_share': no definition \(accepted: a docstring that begins"
    ):
        metric(over="images", share=True)(own_share)


def test_two_files_cannot_declare_one_metric(tmp_path: Path) -> None:
    body = "return counts[..., 0, 0] / 99"
    load_plugins([own_file(tmp_path / "a", body)])
    # The same file may come again.
    load_plugins([tmp_path / "a" / "own.py"])
    with pytest.raises(
        ConfigError, match=r"metric 'tried' is registered twice: as '.*own_.*:tried' and as '.*own_"
    ):
        load_plugins([own_file(tmp_path / "b", body)])


def test_a_metric_that_fails_later_says_so_in_one_line() -> None:
    def own_fails(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        if counts.sum() > 10_000:
            raise MemoryError("too many")
        return counts[..., 0, 0] / 1_000_000

    metric(over="images", definition="a part")(own_fails)
    counts = np.full((2, 3, 4, 4), 10_000)
    with pytest.raises(
        ConfigError, match=r"^metric 'own_fails': of counts of shape \(4, 4\).*: MemoryError: too many"
    ):
        METRICS["own_fails"].scores(counts, scopes=None, n_clear="detector")


def test_another_package_brings_a_metric(tmp_path: Path) -> None:
    code = """
        import detector_bench as db

        @db.metric(over="images", definition="kept / all")
        def kept_share(counts):
            kept, images = counts[..., :-2].sum(axis=(-2, -1)), counts.sum(axis=(-2, -1))
            return kept / (images + (images == 0))
    """
    install(
        tmp_path,
        "tiny_metric",
        files={"tiny_metric.py": code},
        entry_points="""
            [detector_bench.metrics]
            kept_share = tiny_metric:kept_share
            misnamed = tiny_metric:kept_share
        """,
    )
    done = python(
        tmp_path,
        """
        from detector_bench.errors import ConfigError
        from detector_bench.metrics import METRICS
        from detector_bench.results.run_record import environment
        print(METRICS["kept_share"].definition, METRICS["kept_share"].meaning)
        print(environment()["packages"]["tiny_metric"])
        try:
            list(METRICS)
        except ConfigError as error:
            print(error)
        """,
    )
    assert done.stderr == ""
    first, version, second = done.stdout.splitlines()
    assert first == "kept / all kept share"
    assert version[0].isdigit()
    assert second.endswith("calls itself 'kept_share', so it cannot be the metric 'misnamed'")
