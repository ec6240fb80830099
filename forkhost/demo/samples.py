"""The sample conversations of ``make demo``: what people ask, what the agents run, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn. ``command`` really runs in the sample project; it holds no angle brackets."""

    prompt: str
    answer: str
    command: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork made by forkhost through turn ``through``, and how the conversation goes on in it."""

    through: int
    title: str
    exchanges: Sequence[Exchange]


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation with one agent. ``title`` empty: the first prompt is its name."""

    title: str
    exchanges: Sequence[Exchange]
    fork: Fork | None = None


PROJECT: Mapping[str, str] = {
    "invoice.py": '''\
"""Invoices of the shop."""


def total(lines):
    """The sum to pay, in euros. ``lines`` are (price, amount) pairs."""
    return round(sum(price * amount for price, amount in lines), 2)
''',
    "test_invoice.py": """\
import unittest

from invoice import total


class TotalTest(unittest.TestCase):
    def test_half_a_cent_is_rounded_up(self):
        self.assertEqual(total([(2.675, 1)]), 2.68)


if __name__ == "__main__":
    unittest.main()
""",
    "orders.py": '''\
"""The orders API."""

ORDERS = [{"id": number, "customer": f"customer {number % 7}"} for number in range(1, 501)]


def list_orders(request):
    """Every order, newest first."""
    return sorted(ORDERS, key=lambda order: -order["id"])
''',
    "CHANGES.txt": """\
2.4  orders are listed page by page
2.4  totals no longer lose half a cent
2.4  the nightly import runs in four minutes instead of fifty
""",
}

CODEX: Sequence[Sample] = (
    Sample(
        title="Half a cent is missing from invoices",
        exchanges=(
            Exchange(
                "A customer was billed 2.67 instead of 2.68 euros. Where do we round?",
                "The total is rounded once, in `invoice.py`, with Python's `round` on a binary float. 2.675 cannot be "
                "stored exactly: what is rounded is 2.67499999..., and that gives 2.67.",
                command="cat invoice.py",
                thinking="Look at how the total is computed before guessing",
            ),
            Exchange(
                "Is there a test that shows it?",
                "Yes, `test_half_a_cent_is_rounded_up` fails with `2.67 != 2.68`. So the bug is reproduced, and we can "
                "change the code safely.",
                command="python3 -m unittest",
            ),
            Exchange(
                "Fix it with the smallest possible change.",
                "Add half a unit of the last place before rounding:\n\n```python\nreturn round(sum(price * amount for "
                "price, amount in lines) + 1e-9, 2)\n```\n\nThe test passes. It is a plaster, though: sums of many "
                "lines can still drift.",
            ),
            Exchange(
                "Does anything else calculate money with floats?",
                "Only `invoice.py`. The orders API passes amounts through without calculating.",
                command="grep -rn round --include=*.py .",
            ),
        ),
        fork=Fork(
            through=2,
            title="Half a cent, with Decimal",
            exchanges=(
                Exchange(
                    "Let us do it properly: use Decimal for every amount.",
                    "Then `total` takes `Decimal` prices and rounds half up:\n\n```python\nfrom decimal import "
                    'ROUND_HALF_UP, Decimal\n\nCENT = Decimal("0.01")\n\n\ndef total(lines):\n    exact = sum(price * '
                    "amount for price, amount in lines)\n    return exact.quantize(CENT, rounding=ROUND_HALF_UP)\n```"
                    "\n\nThe callers have to parse prices with `Decimal`, so this is a bigger change, but no total can "
                    "drift any more.",
                ),
            ),
        ),
    ),
    Sample(
        title="Why is the nightly import slow?",
        exchanges=(
            Exchange(
                "The nightly import takes fifty minutes. Where does the time go?",
                "Two thirds of it are single-row inserts: one commit for each of 400,000 rows. Parsing takes four "
                "minutes, the rest is index maintenance.",
                thinking="Commits are the usual suspect",
            ),
            Exchange(
                "What would batches of a thousand rows bring?",
                "About 40 minutes less. Each batch is one commit, and the indexes are updated in larger steps. Memory "
                "stays below 20 MB.",
            ),
            Exchange(
                "And if it is interrupted half-way?",
                "Keep the position of the last whole batch in the same transaction as the batch itself. A restart then "
                "goes on behind it and writes nothing twice.",
            ),
        ),
    ),
)

CLAUDE: Sequence[Sample] = (
    Sample(
        title="",
        exchanges=(
            Exchange(
                "Please add pagination to the orders API.",
                "`list_orders` returns all 500 orders at once, newest first. Before changing it I would like to know: "
                "offset pages (`?page=3`) or a cursor (`?after=<id>`)?",
                command="cat orders.py",
                thinking="Two designs are possible here, and they behave differently while orders are coming in.",
            ),
            Exchange(
                "What is the difference for somebody who scrolls while orders come in?",
                "With offsets everything moves down by one whenever an order arrives, so the next page repeats a row. "
                "With a cursor the next page starts behind the last row that was seen: nothing repeats, nothing is "
                "skipped.",
            ),
            Exchange(
                "Offset pages are enough for us.",
                "Done:\n\n```python\ndef list_orders(request, page=1, size=50):\n    newest = sorted(ORDERS, "
                'key=lambda order: -order["id"])\n    return newest[(page - 1) * size : page * size]\n```',
            ),
        ),
        fork=Fork(
            through=2,
            title="",
            exchanges=(
                Exchange(
                    "Let us see it with a cursor.",
                    "```python\ndef list_orders(request, after=None, size=50):\n    newest = sorted(ORDERS, key=lambda "
                    'order: -order["id"])\n    return [order for order in newest if after is None or order["id"] < '
                    "after][:size]\n```\n\nThe answer's last id is the next cursor.",
                ),
            ),
        ),
    ),
    Sample(
        title="",
        exchanges=(
            Exchange(
                "Write the release notes for 2.4 from CHANGES.txt.",
                "## 2.4\n\n- **Orders page by page.** Long lists load at once.\n- **Totals are right to the cent.**\n- "
                "**The nightly import takes four minutes** instead of fifty.",
                command="cat CHANGES.txt",
            ),
            Exchange(
                "Shorter, one sentence for customers.",
                "Orders load faster, and every invoice is right to the cent.",
            ),
        ),
    ),
)


def all_exchanges(samples: Sequence[Sample]) -> Sequence[Exchange]:
    """Every turn of the samples, those of their forks included."""
    return [
        exchange
        for sample in samples
        for exchange in (*sample.exchanges, *(sample.fork.exchanges if sample.fork else ()))
    ]
