# SPDX-License-Identifier: Apache-2.0
"""Pure. The prompts of starter requests: of several lengths, and some with a beginning in common.

Servers reuse the keys and values of a prefix by blocks: 16 tokens in vLLM, 256 in LMCache. So a long
prefix has more than 256 tokens, and a cache under test is hit.
"""

from typing import Final

WORDS: Final = (
    *(
        "amber",
        "birch",
        "canal",
        "dune",
        "ember",
        "fjord",
        "gravel",
        "harbour",
        "island",
        "juniper",
    ),
    *(
        "kelp",
        "lantern",
        "meadow",
        "north",
        "orchard",
        "pebble",
        "quarry",
        "river",
        "slate",
        "tide",
    ),
)
ALONE: Final = (
    "The capital of Norway is",
    "Count from one to ten in words:",
    "Name three tools of a carpenter.",
    "def fibonacci(n):",
    "Translate into French: the train leaves at noon.",
    "A list of five colours:\n1.",
    "Explain in two sentences why ice floats on water.",
    "Write a short notice for a library that closes one hour earlier on Fridays this winter.",
)
# Fits into a context of some hundred tokens, a byte each.
SHORT_BEGINNING: Final = (
    "Log of the lock keeper, Monday: the upper gate was painted, two barges waited for an hour, "
    "and the pump ran until six."
)
_LONG_PARTS: Final = (
    "Register of the harbour at Stone Quay, first quarter.",
    "The harbour has four berths, two cranes and one dry dock.",
    "Berth one takes ships of up to ninety metres, berth two of up to seventy.",
    "Berths three and four are for fishing boats and are free at night.",
    "The large crane lifts forty tonnes and is inspected on the first Monday of each month.",
    "The small crane lifts twelve tonnes and was moved to berth two in February.",
    "In January eleven ships called, and six of them carried timber.",
    "The timber went by rail to the mill at Upper Ferry, forty wagons in all.",
    "One ship, the Northern Lark, waited three days because of fog.",
    "In February nine ships called; four carried salt and two carried machine parts.",
    "The machine parts were for the new pumps of the dry dock.",
    "Two pumps were fitted on the fourteenth, and the third one on the twentieth.",
    "Since then the dock is empty in fifty minutes; before it took two hours.",
    "In March fourteen ships called, more than in any month of the year before.",
    "A barge touched the pier of berth three on the ninth; nobody was hurt.",
    "The pier was repaired within a week, and the barge paid for the planks.",
    "The fee for a night is eighteen crowns for each ten metres of length.",
    "Ships that stay for more than a week pay half of it from the eighth night on.",
    "The harbour office opens at six and closes at ten in the evening.",
    "Letters for crews are kept in the office for thirty days.",
    "Fresh water is drawn at berth two, and ice at the fish hall.",
    "The pilot boat leaves on the hour between seven and nineteen.",
)
LONG_BEGINNING: Final = " ".join(_LONG_PARTS)
QUESTIONS: Final = (
    "What happened first?",
    "How many things are counted here?",
    "Write one sentence that sums it up.",
    "Which part needed a repair?",
    "List every number in it.",
    "What would you ask the writer?",
    "Repeat the last sentence.",
    "Who has to wait, and for how long?",
    "Give it a title of three words.",
    "Which day is named?",
    "Continue it with one more sentence.",
    "Rewrite it as a question.",
)
