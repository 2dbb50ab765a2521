"""What `model: auto` takes: the first of a known key in the environment, a local server, the embedded model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hermes.kernel.errors import SettingsError
from hermes.kernel.probing import first_server
from hermes.kernel.providers import Profile, Provider

FIRST_ASKED = ("anthropic", "openai", "openrouter")
"""The order in which `auto` looks for keys; the rest of the catalogue follows in name order."""

NOT_A_KEY = ("GITHUB_TOKEN", "GH_TOKEN", "GOOGLE_API_KEY", "AWS_*", "HF_TOKEN")
"""Variables that are there for other things; `auto` never takes one as a sign of a provider."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model of a run, as `provider:model`, and why it was taken ("" when the settings name it)."""

    name: str
    why: str = ""


def choose_auto(
    profiles: Mapping[str, Profile], environ: Mapping[str, str], embedded: Callable[[], Iterable[Provider]]
) -> Choice:
    """The first of: a known key in the environment, a local server that answers, the embedded model."""
    order = [*FIRST_ASKED, *(n for n in profiles if n not in FIRST_ASKED)]
    for profile in (profiles[n] for n in order if n in profiles):
        for variable in () if profile.local else profile.key_variables:
            known = not any(fnmatchcase(variable, pattern) for pattern in NOT_A_KEY)
            if known and profile.default_model and environ.get(variable, "").strip():
                return Choice(f"{profile.name}:{profile.default_model}", f"{variable} is set")
    if found := first_server([p for p in profiles.values() if p.local]):
        profile, model = found
        return Choice(f"{profile.name}:{model}", f"{profile.title or profile.name} answers at {profile.base_url}")
    for provider in embedded():
        if here := provider.available():
            why = "no key and no local server was found; it is on this machine"
            return Choice(f"{provider.profile.name}:{here}", why)
    raise SettingsError(
        "no model: nothing was found that `model: auto` could take. The shortest ways to get one:\n"
        "  export OPENAI_API_KEY=…                            a key of a provider (or OPENROUTER_API_KEY)\n"
        "  ollama serve                                       a local server (Ollama, LM Studio, llama.cpp)\n"
        '  pip install "hermes-kernel[local]" && hermes models fetch qwen2.5-coder-1.5b-instruct    no key, no server'
    )
