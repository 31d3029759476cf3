"""Which correction of the model bias score is best: bias and standard error of five, computed exactly.

    python benchmarks/bias_corrections.py

For n clear images per prompt: a fair T2I model, the published scores of Lyu 2025's Table 7 as the truth, and the
same scores shrunk by 15 % (no prompt entirely one-sided), over 100 prompts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.installation import resource
from detector_bench.metrics.estimands import concentration_corrected, concentration_if_fair

Array = NDArray[np.float64]


def estimators(n: int) -> dict[str, Array]:
    """What each says of a prompt with 0 to n men."""
    from scipy.stats import binom

    count = np.arange(n + 1)
    published = np.abs(2 * count / n - 1)
    fair = concentration_if_fair(np.array([n]), classes=2)[0]
    # Leaving out one man, or one woman.
    fewer = [np.abs(2 * np.maximum(count - left, 0) / (n - 1) - 1) for left in (1, 0)]
    left_out = count / n * fewer[0] + (n - count) / n * fewer[1]
    return {
        "as published": published,
        "jackknife": n * published - (n - 1) * left_out,
        "bootstrap (2 score - mean of resamples)": 2 * published
        - binom.pmf(count, n, count[:, np.newaxis] / n) @ published,
        "rescaled, (score - fair) / (1 - fair)": (published - fair) / (1 - fair),
        "ours (model_bias_score_corrected)": concentration_corrected(np.stack([count, n - count], axis=-1)),
    }


def main() -> None:
    """Print the table."""
    from scipy.stats import binom

    scores = pd.read_csv(resource("labels/lyu2025/table7_prompt_bias_scores.csv"))
    table7 = scores[["sdxl", "sd3", "dreamlike"]].to_numpy().ravel()
    truths = {"fair": np.zeros(1), "table 7": table7, "table 7, shrunk": 0.85 * table7}
    print(f"| images | correction | {' | '.join(f'{name}: bias | s. e.' for name in truths)} |")
    print("|---:|---|" + "---:|" * (2 * len(truths)))
    for n in (5, 10, 20, 50, 100):
        for name, estimate in estimators(n).items():
            cells = []
            for truth in truths.values():
                chance = binom.pmf(np.arange(n + 1), n, (1 + truth[:, np.newaxis]) / 2)
                mean = chance @ estimate
                variance = chance @ estimate**2 - mean**2
                cells += [f"{np.mean(mean - np.abs(truth)):+.3f}", f"{np.sqrt(max(variance.mean(), 0) / 100):.3f}"]
            print(f"| {n} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
