"""What is told at the end of several seeds: one table over all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chaos.judge import VERDICTS

BROKEN = "broken"  # no verdict: the harness itself could not go on


def table(results: list[dict[str, Any]]) -> str:
    """A line a seed, then what all of them have in common: verdicts, faults, the worst lateness."""
    lines = [
        f"{'seed':>6} {'faults':>6} {'jobs':>5} {'runs':>6} {'calm p99':>9} {'max':>8} {'near p99':>9} {'max':>8}  verdict"
    ]
    lines += [
        f"{each['seed']:>6} {len(each.get('faults', ())):>6} {each.get('jobs', 0):>5} {each.get('runs', 0):>6}"
        f" {_seconds(each, 'calm_p99'):>9} {_seconds(each, 'calm_max'):>8}"
        f" {_seconds(each, 'near_p99'):>9} {_seconds(each, 'near_max'):>8}  {_words(each['verdicts'])}"
        for each in results
    ]
    kinds = Counter(kind for each in results for kind in each.get("faults", ()))
    lines.append("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    total = Counter[str]()
    for each in results:
        total.update(each["verdicts"])
    lines.append("verdicts: " + ", ".join(f"{verdict} {total[verdict]}" for verdict in (*VERDICTS, BROKEN)))
    runs = sum(each.get("runs", 0) for each in results)
    lines.append(f"{len(results)} seeds, {runs} runs, {sum(total.values())} violations")
    return "\n".join(lines)


def _seconds(result: dict[str, Any], name: str) -> str:
    value = result.get(name)
    return "-" if value is None else f"{value:.2f} s"


def _words(verdicts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items())) or "none"
