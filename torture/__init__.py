"""The fault suite: hostile files, kills, full disks, flipped bits, bad servers; docs/torture.md tells more."""
