"""What this machine's user allows: which key goes to which host, which hosts get images, which foreign code runs.

Studies, checkpoints and result folders may come from strangers. None of them can allow anything: permissions stand
in a file of the user's own (`permissions`), in the words of one call (`this_process`), or are built in.
"""

from detector_bench.trust.foreign_code import ForeignCode, allowed_bytes, allowed_copy, code_sha256, program_files
from detector_bench.trust.origins import Origin
from detector_bench.trust.permissions import (
    TRUST_VARIABLE,
    AllowedCode,
    Permissions,
    add_code,
    add_host,
    add_key,
    read_permissions,
    remove,
    trust_file,
)
from detector_bench.trust.sending import BUILT_IN_KEYS, Sending, key_from_environment, refusals, unset
from detector_bench.trust.this_process import allow_for_this_process, granted, granted_as_text, take_over

__all__ = [
    "BUILT_IN_KEYS",
    "TRUST_VARIABLE",
    "AllowedCode",
    "ForeignCode",
    "Origin",
    "Permissions",
    "Sending",
    "add_code",
    "add_host",
    "add_key",
    "allow_for_this_process",
    "allowed_bytes",
    "allowed_copy",
    "code_sha256",
    "granted",
    "granted_as_text",
    "key_from_environment",
    "program_files",
    "read_permissions",
    "refusals",
    "remove",
    "take_over",
    "trust_file",
    "unset",
]
