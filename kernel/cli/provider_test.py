"""`hermes providers test`: key, server and model of one provider, each tried and told on a line with its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hermes.kernel.cli.display import plain
from hermes.kernel.cli.providers import key_told
from hermes.kernel.effects import FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, ModelReply, Text
from hermes.kernel.probing import list_models, server_of
from hermes.kernel.providers import Parameters, Target, WireFault
from hermes.kernel.recovery import POLICIES
from hermes.kernel.targets import Targets
from hermes.kernel.timeouts import timeouts_for

QUESTION = "Answer with one word: ready"
OUTPUT_TOKENS = 1024
"""Room for a model that thinks first."""
UNLISTED = ("bedrock_converse",)
"""Wire formats whose list of models is not asked for: it needs another service and other rights."""

ADVICE = {
    FaultKind.AUTH: "the key is refused: make a new one, or check which key is meant",
    FaultKind.BILLING: "the account has no credit: pay, or take another key",
    FaultKind.PERMISSION: "the key may not use this model: allow it in the provider's console, or name another",
    FaultKind.RATE_LIMIT: "too many requests: wait, or give several keys",
    FaultKind.MODEL_NOT_FOUND: "`hermes models list` shows the models",
    FaultKind.CONNECTION: "is the address right, is the server running, is there a proxy between?",
    FaultKind.TLS: "the server's certificate is not trusted: SSL_CERT_FILE names your own authority",
    FaultKind.BAD_REQUEST: "`quirks` in hermes.yaml leave out what this endpoint does not take",
    FaultKind.INVALID_REPLY: "the endpoint speaks another wire format: set its api_mode",
}

Say = Callable[[str], None]


def try_provider(targets: Targets, name: str | None, say: Say) -> int:
    """Try each step until one fails; the exit code of a run that ends so. Raises SettingsError for unknown names."""
    choice = targets.choose(name)
    say(f"model     {choice.name}" + (f" ({choice.why})" if choice.why else ""))
    profile = targets.profile_of(choice.name)
    say(f"key       {key_told(profile, targets)[0]}")
    took = Stopwatch()
    try:
        target = targets.get(choice.name, lambda what, share: None, lambda: False)
    except ProviderError as error:
        say(f"failed    {error}")
        return error.reason.exit_code
    say(f"address   {target.base_url or 'by region'} ({target.api_mode}, ready after {took()})")
    if not _reach(target, say):
        return EndReason.PROVIDER_FAILED.exit_code
    pool = targets.pools.of(profile.name)
    keys = pool.keys if pool else (target.api_key,)
    codes = []
    for place, key in enumerate(keys, 1):
        which = f"key {place}: " if len(keys) > 1 else ""
        codes.append(_answer(targets, replace(target, api_key=key), which, say))
    return next((code for code in codes if code), 0)


def _reach(target: Target, say: Say) -> bool:
    """Whether the server answers anything; a refused list is an answer."""
    if target.api_mode in UNLISTED:
        return True
    took = Stopwatch()
    answer, rows = list_models(server_of(target), target.api_mode)
    if answer.status is None:
        say(f"server    not reached: {answer.problem} ({took()}); {ADVICE[FaultKind.CONNECTION]}")
        return False
    listed = f"lists {len(rows)} models" if rows else answer.problem or "lists no models"
    if rows and target.model not in {row.name for row in rows}:
        listed += f", not {target.model}"
    say(f"server    reached, {listed} ({took()})")
    return True


def _answer(targets: Targets, target: Target, which: str, say: Say) -> int:
    took = Stopwatch()
    try:
        reply = _ask(targets, target)
    except WireFault as error:
        fault = classify(error)
        advice = f"; {ADVICE[fault.kind]}" if fault.kind in ADVICE else ""
        say(f"answer    {which}{fault.kind.value}: {plain(fault.detail)} ({took()}){advice}")
        return POLICIES[fault.kind].ends.exit_code
    except ProviderError as error:
        say(f"answer    {which}{error} ({took()})")
        return error.reason.exit_code
    words = plain("".join(part.text for part in reply.parts if isinstance(part, Text)))[:60] or "(no text)"
    usage = reply.usage
    say(f"answer    {which}{words} ({took()}, {usage.prompt_tokens} tokens in, {usage.total_tokens} in all)")
    return 0


def _ask(targets: Targets, target: Target) -> ModelReply:
    """One request by the wire format itself; raises WireFault or ProviderError."""
    wire = targets.wire(target)
    parameters = Parameters(output_cap=min(OUTPUT_TOKENS, (target.row and target.row.output_tokens) or OUTPUT_TOKENS))
    message = wire.encode(Message("user", (Text(QUESTION),)), target)
    body = wire.envelope(wire.prefix("", (), target), [message], parameters, target)
    stream = wire.open(body, parameters, target, timeouts_for(target, targets.settings.request))
    for _ in stream:
        pass
    return stream.reply()


class Stopwatch:
    """Seconds since it was made, as text."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self) -> str:
        return f"{time.monotonic() - self._began:.2f} s"
