"""The examples of README.md and docs/gates-for-pytorch.md."""

import re
from pathlib import Path

import pytest
from broken import BROKEN

import weft.gates
from weft.gates.run import GATES

TOP = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (TOP / page).read_text(), re.DOTALL)


def test_readme() -> None:
    """The leak that README shows is found, with the same words."""
    model = next(b for b in BROKEN if b.name == "no mask in training").build()
    code = next(b for b in blocks("README.md", "python") if "weft.gates" in b)
    with pytest.raises(weft.gates.GateError) as raised:
        exec(code, {"model": model})
    words = [
        re.sub(r"[\d.]+(e-\d+)?", "#", text.splitlines()[0]) for text in (str(raised.value), blocks("README.md", "text")[0])
    ]
    assert words[0] == words[1]


def test_the_page_names_every_gate_and_argument() -> None:
    page = (TOP / "docs/gates-for-pytorch.md").read_text()
    for gate in (*GATES, "loss", "normalised"):
        assert f"*{gate}*" in page
    described = page[page.index("## Arguments") : page.index("## What it cannot see")]
    for name in weft.gates.check.__kwdefaults__:
        assert f"`{name}`" in described or name in ("flex", "seed", "progress"), name
