"""What a ledger of paid answers knows: answers by request and by image, requests without an outcome, sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from detector_bench.perception.answers.ledger_lines import LedgerLine, PaidAnswer
from detector_bench.perception.answers.prices import Prices
from detector_bench.perception.answers.spending import StageSpending


@dataclass(frozen=True)
class Asked:
    """A request as it is about to be sent.

    Attributes:
        request_sha256: of its content.
        image_sha256: of the image's file, if it is known.
        size: of the image as it is sent.
    """

    request_sha256: str
    image_sha256: str | None
    size: tuple[int, int]


@dataclass
class LedgerIndex:
    """What the lines of a ledger say together, taken in one by one.

    Attributes:
        by_request: answers by service and sha256 of the request.
        by_image: answers by fingerprint of the stage and sha256 of the image.
        prompt_tokens: the most that was told, by fingerprint of the stage and size of the image.
        open: requests without an outcome, by id.
        unanswered: ids of requests that may have been paid for and have no answer, by service and request.
        stages: the first line of each stage, by label.
        by_session: sums by session and stage.
    """

    by_request: dict[tuple[str, str], PaidAnswer] = field(default_factory=dict)
    by_image: dict[tuple[str, str], PaidAnswer] = field(default_factory=dict)
    prompt_tokens: dict[tuple[str, tuple[int, int]], int] = field(default_factory=dict)
    open: dict[str, LedgerLine] = field(default_factory=dict)
    unanswered: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    stages: dict[str, LedgerLine] = field(default_factory=dict)
    by_session: dict[str, dict[str, StageSpending]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(StageSpending))
    )

    def answer(self, service: str, asked: Asked, *, fingerprint: str) -> PaidAnswer | None:
        """What was answered to a request, or about the image to an equal stage."""
        found = self.by_request.get((service, asked.request_sha256))
        if found is None and asked.image_sha256 is not None and fingerprint:
            # An image file that another version of a library would pack otherwise is the same image still.
            found = self.by_image.get((fingerprint, asked.image_sha256))
        return found

    def take(self, line: LedgerLine) -> None:
        """Take in a line; of one process in the order of its file."""
        key = line.service, line.request_sha256
        self.stages.setdefault(line.stage, line)
        request = self.open.pop(line.id, None)
        if line.kind == "request":
            self.open[line.id] = line
            self.unanswered.setdefault(key, []).append(line.id)
        elif line.answer is not None or not line.perhaps_paid:
            self._forget(key, line.id)
        if line.answer is not None:
            self.by_request[key] = line.answer
            if line.image_sha256 is not None and line.fingerprint:
                self.by_image[line.fingerprint, line.image_sha256] = line.answer
            if line.size is not None and line.answer.prompt_tokens is not None:
                place = line.fingerprint, line.size
                self.prompt_tokens[place] = max(self.prompt_tokens.get(place, 0), line.answer.prompt_tokens)
        self.by_session[line.session][line.stage].take(line, request=request)

    def _forget(self, key: tuple[str, str], number: str) -> None:
        left = [each for each in self.unanswered.get(key, ()) if each != number]
        if left:
            self.unanswered[key] = left
        else:
            self.unanswered.pop(key, None)

    def sums(self, *, session: str | None = None) -> dict[str, StageSpending]:
        """By stage, of one session or of all; requests without an outcome count as perhaps paid."""
        found: dict[str, StageSpending] = {}
        for own, stages in self.by_session.items():
            for label, spent in stages.items() if session in (None, own) else ():
                into = found.setdefault(label, StageSpending(counts_tokens=spent.counts_tokens))
                into.add(spent)
        for line in self.open.values():
            if session in (None, line.session):
                found[line.stage].failures += 1
                found[line.stage].perhaps_paid += 1
                found[line.stage].doubt(line)
        return found

    def committed(
        self, currency: str, prices: Mapping[str, Prices], *, session: str
    ) -> tuple[float, float, float]:
        """What is spent, what may have been spent besides, and what requests on the way may cost."""
        spent = doubtful = 0.0
        for stages in self.by_session.values():
            for label, each in stages.items():
                spent += each.costs(prices.get(self.stages[label].fingerprint)).get(currency, 0.0)
                doubtful += each.doubtful.get(currency, 0.0)
        mine = [line.worst or 0.0 for line in self.open.values() if line.session == session]
        others = [
            line.worst or 0.0
            for line in self.open.values()
            if line.session != session and line.currency == currency
        ]
        return spent, doubtful + sum(others), sum(mine)

    def unknown(self, prices: Mapping[str, Prices]) -> int:
        """How many requests that may have been paid for, of which nobody knows at what price."""
        found = sum(line.worst is None and line.may_cost for line in self.open.values())
        for stages in self.by_session.values():
            for label, spent in stages.items():
                stage = self.stages[label]
                # Answers of a stage that is not in the study any more, and never had prices.
                unpriced = len(spent.unpriced) if stage.may_cost and stage.fingerprint not in prices else 0
                found += spent.unknown + unpriced
        return found
