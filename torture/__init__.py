"""The fault suite: hostile files, kills, full disks, flipped bits, misbehaving servers. docs/torture.md says what it found."""
