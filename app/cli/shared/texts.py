"""``trilemma quality --texts``: answers of a runtime to prompts of the user, scored against references."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.library.files import FileError
from app.library.imports.texts import Text, against, scores, texts_of
from app.library.records import point_record
from app.text.format import estimate_text, quantity_text
from core.catalogue.text_files import read_text_of
from core.spec import OperatingPoint

N_TOKENS, MOST_TOKENS = 64, 512
_ROWS = {
    "bleu": ("BLEU-4", "frac"),
    "rouge_l": ("ROUGE-L", "frac"),
    "perplexity": ("perplexity of the references", "1"),
    "top1": ("reference tokens that are its first choice", "frac"),
    "request_s": ("time of a request", "s"),
}
_AGAINST = {
    "kl": ("KL from the reference run, at least", "nat"),
    "agreement": ("same first choice as the reference run", "frac"),
}


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file of texts, the reference run and the length of answers."""
    group = parser.add_argument_group("texts of the user, answered by another runtime than Trilemma's own decoder")
    group.add_argument(
        "--texts",
        type=Path,
        metavar="FILE",
        help="score answers with BLEU and ROUGE-L, and references by the probabilities that the runtime tells: JSON "
        "lines or CSV with prompt and reference",
    )
    group.add_argument(
        "--reference", type=Path, metavar="FILE", help="--json output of an earlier run of the same texts, for KL"
    )
    group.add_argument("--tokens", type=int, default=N_TOKENS, metavar="N", help=f"tokens of an answer ({N_TOKENS})")


def report(args: argparse.Namespace, point: OperatingPoint) -> int:
    """Ask, score and print."""
    if not 1 <= args.tokens <= MOST_TOKENS:
        raise UserError(f"tokens: got {args.tokens}, expected 1 to {MOST_TOKENS}")
    if point.runtime == OperatingPoint().runtime:
        raise UserError("--texts asks a runtime of the board: give --runtime (trilemma runtimes lists them)")
    try:
        texts = _texts(args.texts)
        reference = None if args.reference is None else _reference(args.reference, texts)
        answers = _ask(args, point, texts)
    except (FileError, LinkError) as error:
        raise UserError(str(error)) from error
    document = {
        "point": point_record(point),
        "file": str(args.texts),
        "n_texts": len(texts),
        "bleu_definition": "sacrebleu: 4-grams, tokens 13a, smoothing exp, one reference, case kept",
        **scores(texts, answers),
        "against": None if reference is None else against(answers, reference),
        "answers": [
            {"prompt": text.prompt, "reference": text.reference, **answer}
            for text, answer in zip(texts, answers, strict=True)
        ],
    }
    if args.json:
        print_json(document)
    else:
        _print(document)
    return 0


def _texts(path: Path) -> list[Text]:
    try:
        return texts_of(str(path), read_text_of(path))
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        text = str(error)
        raise UserError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _ask(args: argparse.Namespace, point: OperatingPoint, texts: Sequence[Text]) -> list[Mapping[str, Any]]:
    target, found = target_from(args.attach, args.ssh_config), list[Mapping[str, Any]]()
    with AttachedBoard(target) as board, ProgressLine() as line:
        for i, text in enumerate(texts):

            def show(done_frac: float, words: str, i: int = i) -> None:
                line.show((i + done_frac) / len(texts), f"text {i + 1} of {len(texts)}: {words}")

            options = {"prompt": text.prompt, "reference": text.reference, "n_tokens": args.tokens}
            body = board.measure(point_record(point), ("texts",), show, options=options)
            answer = body.get("answer")
            if not isinstance(answer, Mapping) or not {"text", "request_s", "tokens"} <= answer.keys():
                raise UserError("the board sent no answer to a text: is its agent older than this program?")
            found.append(answer)
    return found


def _reference(path: Path, texts: Sequence[Text]) -> list[Mapping[str, Any]]:
    """Return the answers of an earlier run.

    Raises
    ------
    FileError
        It cannot be read, is no such document, or is of other texts.
    """
    try:
        answers = json.loads(path.read_text(encoding="utf-8"))["answers"]
        of = [(each["prompt"], each["reference"]) for each in answers]
        sound = all(_sound(each["tokens"]) for each in answers)
    except OSError as error:
        raise FileError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileError(f"{path}: got another document, expected the --json output of quality --texts") from None
    if not sound:
        raise FileError(f"{path}: got tokens without probabilities, expected the --json output of quality --texts")
    if of != [(text.prompt, text.reference) for text in texts]:
        raise FileError(f"{path}: got a run of other texts, expected one of the same file")
    return list(answers)


def _sound(tokens: Any) -> bool:
    if isinstance(tokens, dict):
        return True
    return isinstance(tokens, list) and all(
        isinstance(each["token"], str)
        and isinstance(each["top"], dict)
        and all(isinstance(p, (int, float)) and -1e6 < p <= 0.0 for p in each["top"].values())
        for each in tokens
    )


def _print(document: Mapping[str, Any]) -> None:
    rows = [(words, _cell(document[name], unit)) for name, (words, unit) in _ROWS.items()]
    compared = document["against"]
    if compared is not None:
        rows += [(words, _cell(compared[name], unit)) for name, (words, unit) in _AGAINST.items()]
    print_table([("", f"{document['n_texts']} TEXTS"), *rows])
    print(f"\nBLEU as {document['bleu_definition']}. Intervals: 90 %, bootstrap over the texts.")
    print(f"99 % of the requests take at most {quantity_text(document['request_s']['p99'], 's')}.")
    if document.get("n_not_listed"):
        print(f"{document['n_not_listed']} reference tokens were not listed: the perplexity is a lower bound.")


def _cell(value: Mapping[str, Any], unit: str) -> str:
    if "absent" in value:
        return f"absent: {value['absent']}"
    return str(estimate_text(value["median"], value["q05"], value["q95"], unit))
