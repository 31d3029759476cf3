"""Proof that a result folder is what it says: from page and figure back to numbers, predictions and images."""

from detector_bench.verification.chain import VerificationOrder, verify_folder
from detector_bench.verification.packing import pack_folder, unpacked

__all__ = ["VerificationOrder", "pack_folder", "unpacked", "verify_folder"]
