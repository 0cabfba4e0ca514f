"""The bundled synthetic task: help-desk messages routed to colour queues.

The queue of a topic is chosen anew for each data set, so a model cannot know it without examples:
zero-shot is chance, and whatever a system gets right comes from private rows. All words are ours.
"""

from __future__ import annotations

import numpy as np

from leakbound.tasks.example import Context, Example
from leakbound.tasks.task import Task

QUEUES = ("red", "blue", "green", "gold")
HELP_DESK = Task(
    name="help_desk",
    labels=QUEUES,
    instruction="Label each input with one of: red, blue, green, gold.",
)

TOPICS: dict[str, tuple[str, ...]] = {
    "billing": (
        "the invoice shows a wrong amount",
        "my card was charged twice",
        "the refund has not been paid",
        "the price on the bill is too high",
        "please send a receipt for the payment",
        "a fee was added to my invoice",
        "the bank refused the payment",
        "I want my money back",
    ),
    "delivery": (
        "the parcel never arrived",
        "the courier left the box at the wrong door",
        "my package is three days late",
        "the tracking page says the parcel is lost",
        "please ship the order to a new address",
        "the driver did not ring the bell",
        "the box came open and wet",
        "when will the shipment reach the depot",
    ),
    "repair": (
        "the screen is broken",
        "the motor makes a loud noise",
        "the battery does not charge",
        "the machine leaks water",
        "a button on the device is stuck",
        "the pump stopped working",
        "the cable smells of smoke",
        "the lamp flickers and goes dark",
    ),
    "account": (
        "I forgot my password",
        "the login page rejects my code",
        "please change my email address",
        "my profile was locked after a failed login",
        "I cannot reset my password",
        "please delete my profile and my data",
        "the code to sign in never comes",
        "someone else uses my user name",
    ),
    "travel": (
        "the flight to the island was cancelled",
        "the hotel gave us another room",
        "I missed the train to the coast",
        "the ticket has the wrong date",
        "our seats were taken on the plane",
        "the tour guide did not come",
        "the bus left before the hour",
        "please book a cabin on the ferry",
    ),
    "garden": (
        "the roses lost their leaves",
        "the seeds did not grow",
        "the tomato plants have spots",
        "the lawn is dry and yellow",
        "snails eat the young cabbage",
        "the apple tree bears no fruit",
        "the soil in the pot is sour",
        "the hedge grows over the fence",
    ),
    "music": (
        "the guitar is out of tune",
        "the choir sings too slowly",
        "the piano needs new strings",
        "the drummer lost the beat",
        "the violin sounds thin",
        "the band plays one song too many",
        "the singer missed the high note",
        "the concert hall has an echo",
    ),
    "kitchen": (
        "the soup is too salty",
        "the bread did not rise",
        "the oven burns the cake",
        "the sauce is too thin",
        "the fish smells old",
        "the rice sticks to the pan",
        "the butter melted on the shelf",
        "the cook forgot the onions",
    ),
}

OPENINGS = (
    "Hello,",
    "Good morning,",
    "Dear team,",
    "Please help:",
    "Hi,",
    "Again:",
    "Urgent:",
    "Sorry, but",
    "",
)
CLOSINGS = (
    "Thank you.",
    "Regards, {name}.",
    "Call me, {name}.",
    "My number is {code}.",
    "Reference {code}.",
    "This is {name}.",
    "Please answer soon.",
    "Order {code}, {name}.",
    "",
)
NAMES = (
    "Anna",
    "Boris",
    "Clara",
    "David",
    "Elena",
    "Felix",
    "Greta",
    "Hugo",
    "Irene",
    "Jonas",
    "Karin",
    "Lukas",
    "Maria",
    "Nils",
    "Olga",
    "Peter",
    "Rosa",
    "Simon",
    "Tina",
    "Viktor",
)


def message(topic: str, rng: np.random.Generator) -> str:
    """One message about a topic, with a name or a code of a made-up person."""
    closing = str(rng.choice(CLOSINGS)).format(
        name=rng.choice(NAMES), code=int(rng.integers(1000, 100000))
    )
    return " ".join(
        part
        for part in (str(rng.choice(OPENINGS)), f"{rng.choice(TOPICS[topic])}.", closing)
        if part
    )


def help_desk(count: int, rng: np.random.Generator, topics: int = 4) -> Context:
    """A balanced, shuffled data set of messages, each topic routed to a queue of its own."""
    chosen = rng.choice(list(TOPICS), size=topics, replace=False)
    rows = [
        Example(message(str(chosen[i % topics]), rng), QUEUES[i % topics]) for i in range(count)
    ]
    return tuple(rows[i] for i in rng.permutation(count))
