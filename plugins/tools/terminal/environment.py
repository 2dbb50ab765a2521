"""What a command sees of our environment: no secrets, nothing of ours, nothing that makes a program wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# A provider's key has no business in a command of the model's (specification of tools 1.1, local environment).
SECRET_ENDINGS = (
    "_API_KEY", "_APIKEY", "_KEY", "_KEY_ID", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_PASSPHRASE",
    "_CREDENTIALS", "_CREDENTIALS_FILE", "_WEBHOOK_URL",
)  # fmt: skip
SECRET_NAMES = frozenset({"API_KEY", "TOKEN", "SECRET", "PASSWORD", "PGPASSWORD", "MYSQL_PWD", "KUBECONFIG_DATA"})
OWN_PREFIXES = ("HERMES_", "_HERMES_")

# Of the virtual environment that hermes itself runs in: a command's python would think that it is in it.
OWN_NAMES = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME", "__PYVENV_LAUNCHER__"})

# Nobody sits at the command's terminal: no pager, no prompt, no colours.
SET: Mapping[str, str] = {
    "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1",
}  # fmt: skip

MARK = "_HERMES_COMMAND"
"""The variable by which the processes of one command are found again, wherever they went."""


def is_hidden(name: str) -> bool:
    upper = name.upper()
    return (
        upper.endswith(SECRET_ENDINGS)
        or upper.startswith(OWN_PREFIXES)
        or upper in SECRET_NAMES
        or upper in OWN_NAMES
    )  # fmt: skip


def command_environment(environ: Mapping[str, str], cwd: str, mark: str, keep: Collection[str] = ()) -> dict[str, str]:
    """The environment of one command; `keep` are names that pass although they are hidden by the table."""
    seen = {name: value for name, value in environ.items() if name in keep or not is_hidden(name)}
    return {**seen, **SET, "PWD": cwd, MARK: mark}
