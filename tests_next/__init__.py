"""Tests of detector_bench_next; they speak to its public interface."""
