#!/bin/bash
# Predicts an image set in $shards tasks, each a shard of it. Written by detector-bench; change what you like, but not
# the number of shards.
#
#   sbatch $script
#       submits it. The task that ends last writes the results: nothing else need be submitted.
#   detector-bench show $out shards
#       says what is done and which tasks to submit again:
#   sbatch --array=3,7-9 $script
#
# A task that was killed, preempted or ran out of time goes on where it was when it is submitted again.

#SBATCH --job-name=$name
# Tasks 1 to $shards, at most $at_once at the same time.
#SBATCH --array=1-$shards%$at_once
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
# A GPU for each task, and where your cluster wants them a limit of time, a partition, an account: take one # away.
##SBATCH --gpus=1
##SBATCH --time=04:00:00
##SBATCH --partition=NAME
##SBATCH --account=NAME
# A log for each shard; further tries are appended.
#SBATCH --output=$logs
#SBATCH --open-mode=append
# Begin again what was preempted or whose machine failed; tell the task two minutes before its time is over.
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --chdir=$folder

set -euo pipefail

# Keys of services are not written here: they come from the environment in which you call sbatch.
$exports
# `exec`: the program itself hears when Slurm stops the task, and stores what is done.
$command
