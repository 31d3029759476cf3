"""What a study says about T2I models, read from its result folder: findings, sentences, and what to do next."""

from __future__ import annotations

from detector_bench.audit.findings import AttributeAudit as AttributeAudit
from detector_bench.audit.findings import HumanLabels as HumanLabels
from detector_bench.audit.findings import T2IModelAudit as T2IModelAudit
from detector_bench.audit.next_steps import next_steps as next_steps
from detector_bench.audit.sentences import differences_in_words as differences_in_words
from detector_bench.audit.sentences import in_words as in_words
from detector_bench.audit.sentences import what_carried as what_carried
