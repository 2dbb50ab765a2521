"""Words that must not be lost: each thing that the user said, counted in the conversation as it changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from world import World

from hermes.kernel.messages import Message

_SAID = re.compile(r"(?:input|steer)-\d+-")


class Words:
    """What the user said, and how often each of it stands in the conversation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.inputs: list[str] = []
        self.steers: list[str] = []
        self.given_back: set[str] = set()
        self.times: Counter[str] = Counter()

    def new_input(self) -> str:
        self.inputs.append(self.world.word("input"))
        return self.inputs[-1]

    def new_steer(self) -> str:
        self.steers.append(self.world.word("steer"))
        return self.steers[-1]

    def placed(self, message: Message) -> None:
        self.times.update(_SAID.findall(all_text(message)))

    def superseded(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.times.subtract(_SAID.findall(all_text(message)))

    def standing(self) -> list[str]:
        """The user's words that stand in the conversation, which a compression carries over."""
        return [word for word in (*self.inputs, *self.steers) if self.times[word]]

    def fault(self, waiting: Collection[str]) -> str:
        """What is wrong at the end of a turn: each input once, each steer once or given back, none both.

        What still waits for a turn of its own stands nowhere yet.
        """
        for word in self.inputs:
            if self.times[word] + (word in waiting) != 1:
                return f"the input {word} stands {self.times[word]} times in the conversation"
        for word in self.steers:
            times = self.times[word] + (word in self.given_back)
            if times > 1 or (times == 0 and word not in waiting):
                return f"steering {word} was placed or given back {times} times"
        return ""


def all_text(message: Message) -> str:
    return message.text + "".join(result.text for result in message.results)
