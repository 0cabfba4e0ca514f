"""Peak memory of a process with `--memory X`, from outside, for X in multiples of the weights.

python bench/memory_budget.py [--shapes pocket opt-125m llama-700m] [--times 1.2 1.5 2] [--more MB]

Each budget is tried in a process of its own, which loads the model from a folder, scores labels
behind long prompts, makes logits along responses and completes prompts, in batches larger than any
budget. The parent reads the most that the process ever held, mapped files included (VmHWM), before
it ends. A budget that holds nothing beside Python, torch and the weights must be refused at load;
"process" is what a process takes with the weights before the first prompt. With --old, the same by
the first release from the folder of its checkout. Weights are random but for the pocket model's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from leakbound.models.pocket import FOLDER

SHAPES = {
    "opt-125m": ("opt", {}),
    "llama-700m": ("llama", {"hidden_size": 1536, "intermediate_size": 6144,
                             "num_hidden_layers": 16, "num_attention_heads": 16,
                             "vocab_size": 32000, "max_position_embeddings": 2048}),
}  # fmt: skip
LIMIT = 1.05  # a peak may be this many times the budget
# argv: folder of the model, budget in bytes, longest prompt in tokens
WORK = """
import sys
import numpy as np
if sys.argv[4]:
    sys.path.insert(0, sys.argv[4] + "/src")
    from contextleak.errors import ContextleakError as Refused
    from contextleak.models import Complete, Local, NextLogits, ScoreLabels, open_model
else:
    from leakbound.errors import LeakboundError as Refused
    from leakbound.models import Complete, Local, NextLogits, ScoreLabels, open_model
try:
    model = open_model("hf/" + sys.argv[1], local=Local(memory=int(sys.argv[2])))
except Refused as error:
    print("refused", error)
    sys.exit()
rng, long = np.random.default_rng(0), int(sys.argv[3])
ids = lambda n: tuple(rng.integers(3, 2048, n).tolist())
def answer(requests):
    global answered, declined
    try:
        model.answer(requests)
        answered += 1
    except Refused as error:
        declined += 1
answered = declined = 0
head = ids(long // 2)
rows = [head + ids(long // 2) for _ in range(3)] + [ids(long // 4) for _ in range(2)]
answer([NextLogits(row, (5, 6, 7)) for row in rows])
answer([ScoreLabels(row[: long // 4], ("yes", "no", "quite another thing")) for row in rows])
answer([Complete(row[: long // 4], max_tokens=4) for row in rows])
answer([NextLogits(rows[0])])
print("held", answered, declined)
sys.stdout.flush()
sys.stdin.readline()
"""


@dataclass
class Found:
    """What became of one budget."""

    outcome: str
    peak: int

    def cells(self, memory: int) -> str:
        if self.outcome.startswith("refused"):
            return "refused at load | "
        share = self.peak / memory
        _, answered, declined = self.outcome.split()
        said = f"{self.peak / 2**20:.0f} MB" + ("" if share <= LIMIT else ", too much")
        return f"{said}, {answered} of {int(answered) + int(declined)} batches | {share:.2f}"


def tried(folder: Path, memory: int, long: int, old: str = "") -> Found:
    """Load and work within a budget; the peak in bytes, as the system tells it of the process."""
    command = [sys.executable, "-c", WORK, str(folder), str(memory), str(long), old]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        lines = iter(process.stdout.readline, "")
        outcome = next((one for one in lines if one.startswith(("refused", "held"))), "failed")
        status = ""
        if outcome.startswith("held"):
            status = Path(f"/proc/{process.pid}/status").read_text()
            process.stdin.write("\n")
    if outcome == "failed":
        raise SystemExit(f"{folder}: the process ended with exit code {process.returncode}.")
    peak = next((int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line), 0)
    return Found(outcome.strip(), peak << 10)


def folder_of(shape: str, within: Path) -> tuple[Path, int]:
    """A folder of the model, and the most tokens of a prompt."""
    if shape == "pocket":
        return FOLDER, 1000
    kind, options = SHAPES[shape]
    config = AutoConfig.for_model(kind, **options)
    AutoModelForCausalLM.from_config(config).save_pretrained(within)
    PreTrainedTokenizerFast.from_pretrained(FOLDER).save_pretrained(within)
    return within, config.max_position_embeddings - 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["pocket", *SHAPES])
    parser.add_argument("--times", type=float, nargs="+", default=[1.2, 1.5, 2.0])
    parser.add_argument("--more", type=int, nargs="*", default=[], metavar="MB",
                        help="budgets beyond what the process takes with the weights")  # fmt: skip
    parser.add_argument("--long", type=int, help="most tokens of a prompt [default: the window]")
    parser.add_argument("--old", default="", help="folder of a checkout of the first release")
    given = parser.parse_args()
    print("| model | weights | budget | peak | of the budget |\n| --- | --- | --- | --- | --- |")
    ok = True
    for shape in given.shapes:
        with tempfile.TemporaryDirectory() as made:
            folder, long = folder_of(shape, Path(made))
            weights = sum(os.stat(file).st_size for file in folder.glob("*.safetensors"))
            budgets = {f"{t:g} × weights": int(t * weights) for t in given.times}
            least = weights + (BASE << 20)
            budgets |= {f"process + {more} MB": least + (more << 20) for more in given.more}
            for label, memory in budgets.items():
                found = tried(folder, memory, given.long or long, given.old)
                said = f"{label} = {memory / 2**20:.0f} MB"
                print(f"| {shape} | {weights / 2**20:.0f} MB | {said} | {found.cells(memory)} |")
                sys.stdout.flush()
                ok &= found.peak <= LIMIT * memory
    return 0 if ok else 1


BASE = 330  # MB of Python with torch, transformers and this package


if __name__ == "__main__":
    sys.exit(main())
