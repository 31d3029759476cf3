"""A study on Ray: its shards are judged by actors on a cluster, or on this machine, and stored by this process.

Resuming is by shards and fingerprints, as everywhere: this process plans a shard, holds its lock, writes its parts
and its manifest. Ray keeps nothing that counts.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from detector_bench.atomic_files import write_text
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.plugins import plugin_sources
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.run import RunSession
from detector_bench.runner.run_ledger import asks_service
from detector_bench.runner.run_record import ProgressListener, RunProgress, RunRecord
from detector_bench.runner.shard_ledger import ShardTakenError
from detector_bench.runner.shards import Shard
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_ray.cluster import RayCluster
from detector_bench.study_ray.crew import RayCrew, ShardGivenUpError
from detector_bench.study_ray.nodes import PROOF, NodeJob, judge_versions, study_files
from detector_bench.study_session import RunOrder
from detector_bench.trust import granted_as_text, refusals

__all__ = ["node_job", "run_with_ray"]


def run_with_ray(
    study: StudyConfiguration,
    order: RunOrder,
    *,
    session: RunSession,
    progress: ProgressListener | None = None,
) -> RunRecord:
    """Judge what is missing in all shards by actors on Ray.

    Args:
        study: is sent to the nodes, with the plugin files that this process has loaded.
        order: what is asked for; `address` and `workers` are about Ray.
        session: plans and stores.
        progress: is told after every batch.

    Returns:
        What was done, and by which versions.

    Raises:
        MissingExtraError: Ray is not installed.
        RunInterruptedError: Ctrl-C; what was done is stored.
        ShardTakenError: another process judges a shard; all others are done.
        DetectorBenchError: what the user can mend, here or on a node, or a shard at which workers die.
    """
    cluster = RayCluster(order.address)
    shards = Shard.all(session.decide_layout())
    state = RunProgress(total=session.images, shards=len(shards))
    crew = RayCrew(
        cluster,
        session.judge,
        session.settings,
        job=lambda threads: node_job(study, order, session, threads=threads),
        workers=order.workers,
        threads=order.threads,
    )
    session.elsewhere = crew
    record, given_up, taken = RunRecord(), {}, []
    try:
        for shard in shards:
            try:
                with session.telling_what_is_left():
                    record.add(session.run_shard(shard, state=state, progress=progress))
            except ShardTakenError:
                taken.append(shard)
            except ShardGivenUpError as error:
                given_up[shard] = str(error)
        if given_up:
            first = min(given_up)
            raise DetectorBenchError(
                f"{len(given_up)} of {len(shards)} shards are not done; shard {first}: {given_up[first]}. "
                "All else is stored: run the same command again to go on"
            )
        record.add(session.run_left(taken, state=state, progress=progress))
    finally:
        session.elsewhere = None
        crew.close()
    return session.with_spending(record)


def node_job(study: StudyConfiguration, order: RunOrder, session: RunSession, *, threads: int) -> NodeJob:
    """What nodes must know to judge as this process would, computing with so many threads each."""
    with tempfile.TemporaryDirectory(prefix="detector-bench-") as folder:
        study.write(Path(folder))
        files = study_files(Path(folder))
    return NodeJob(
        study=files,
        folder=Path(folder).resolve(),
        plugins=plugin_sources(),
        weights_dir=None if order.weights_dir is None else order.weights_dir.resolve(),
        settings=replace(
            session.settings,
            threads=threads,
            cache_folder=None,
            paid_folder=_absolute(session.settings.paid_folder),
        ),
        versions=judge_versions(session.judge),
        environment=_keys(session.judge),
        proof=_proof_of_folder(session),
        allowed=granted_as_text(),
    )


def _proof_of_folder(session: RunSession) -> str | None:
    """Puts a word into the folder of paid answers, by which a node sees that it has the same folder."""
    folder = session.settings.paid_folder
    if folder is None or not any(asks_service(stage) for stage in session.judge.fingerprints):
        return None
    word = secrets.token_hex(16)
    write_text(folder / PROOF, word)
    return word


def _absolute(folder: Path | None) -> Path | None:
    return None if folder is None else folder.resolve()


def _keys(judge: BatchJudge) -> dict[str, str]:
    """The keys that stages ask services with, as they are set here.

    Raises:
        ConfigError: a stage would send one to a host that the user has not bound it to.
    """
    sent = [sending for stage in judge.fingerprints if (sending := stage.sends()) is not None]
    if refused := list(dict.fromkeys(line for sending in sent for line in refusals(sending))):
        raise ConfigError("\n".join(refused))
    names = {name for stage in judge.fingerprints for name in stage.environment_variables()}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}
