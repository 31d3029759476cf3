"""Finds the numbers of requests to T2I models in a metric table; computes none."""

from __future__ import annotations

import pandas as pd

from detector_bench.metrics.refusals import REQUEST_METRICS
from detector_bench.results.metric_lookup import MetricLookup
from detector_bench.vocabulary import ALL


def rows_of_requests(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of a metric table about requests, which belong to no attribute."""
    return metrics[(metrics["attribute"] == ALL) & metrics["metric"].isin(REQUEST_METRICS)]


def request_lookup(metrics: pd.DataFrame) -> MetricLookup | None:
    """The same, by name; None where nothing is known of any request."""
    own = rows_of_requests(metrics)
    return None if own.empty else MetricLookup.of_table(own, attribute=ALL)
