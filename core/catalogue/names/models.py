"""Which model a name means, however its authors write it: file names, repositories and tags of model libraries.

A name is read as words (the family), whole and decimal numbers (the generation) and sizes. Makers, tunings, dates,
contexts and quantisations leave a model's shape as it is and are passed over; any other word makes another model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from core.spec import ModelShape

SAME_SHAPE_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        meta ibm nvidia google microsoft openai mistralai apple amd tencent baidu lg lgai thudm zai org ai community
        unsloth bartowski thebloke lmstudio ggml mlx mlc hf huggingface huggingfacetb ollama optimum onnx openvino qnn
        instruct instruction chat it base pt sft dpo rlhf orpo simpo kto thinking reasoning reasoner preview final
        latest main release default dense tuned finetune finetuned lora merged aligned rc dev exp uncensored world
        allenai tiiuae
        coder math abliterated crack hermes openhermes dolphin zephyr tulu nous research capybara beta ternary
        qat aqlm spinquant quant quantized gguf safetensors rkllm litertlm genie awq gptq dq jangtq
        openorca jp intermediate ud imat imatrix fixed
        """,
    )
)
"""Words of a name for a maker, tuning, file or library, which leave the model's shape as it is."""

_FOLDER = re.compile(r"^.*(?:[/\\]|--)(?=[^/\\]*[a-z])")
_MAKER = re.compile(r"^[a-z0-9-]{2,}_(?=[a-z])", re.IGNORECASE)  # of files such as LiquidAI_LFM2.5-1.2B-Instruct
_FILE_TYPE = re.compile(r"\.(?:gguf|ggml|safetensors|bin|rkllm|pte|litertlm|tflite|task|onnx|pth?)$")
_FULL_STOP = re.compile(r"\.(?!\d)|(?<!\d)\.")
_PASSED_OVER = re.compile(
    r"(?<![a-z0-9.])(?:"
    + "|".join(
        (
            r"i?q\d(?:_[0-9a-z]+|-k(?:-[sml])?)*|tq\d_\d|q\df\d+(?:_\w+)?",  # types of files
            r"[a-z]{0,2}fp\d+|bf?16|f16|f32|nf4|int\d+|i\d|exl\d|w\d+(?:a\d+)?(?:_?g\d+)?|a\d+w\d+|g\d+|eo\d",
            r"rk\d+\w*|ax\d+[a-z]*",  # boards that a file was made for
            r"\d+(?:\.\d+)?[-_ ]?(?:bits?|bpw)",
            r"\d+k|1m|\d+(?:\.\d+)?t|\de\dt|step[-_]?\d+\w*",  # context, and tokens seen in training
            r"20\d\d[-_.]\d\d(?:[-_.]\d\d)?|\d{4}|\d{6}|\d{8}|\d{5}[-_]of[-_]\d{5}",  # dates, parts of a file
            r"v0\.\d+|v1\.0",  # of a tuning
        )
    )
    + r")(?![a-z0-9])"
)
_WRITTEN_OTHERWISE = (
    (re.compile(r"(?<=\d)_(?=\d)"), "."),  # 1_5
    (re.compile(r"(?<=\d)p(?=\d+b)"), "."),  # 6p7b
    (re.compile(r"(\d)b(\d+)(?![a-z0-9])"), r"\1.\2b"),  # 1b5
    (re.compile(r"(?<=\db)\d+t(?![a-z0-9])"), ""),  # 2b4t: trained on so many tokens
    (re.compile(r"(?<![a-z0-9])v(?=\d)"), " "),  # v3.2
)
_TOKEN = re.compile(
    r"(?P<part>(?<![a-z])(?:\d+x|[ae])\d+(?:\.\d+)?[bm](?![a-z0-9]))"  # 8x7b, a3b, e2b
    r"|(?P<size>\d+(?:\.\d+)?[bm](?![a-z0-9]))"
    r"|(?P<number>\d+(?:\.\d+)*)"
    r"|(?P<word>[a-z]+)"
)


class ModelName(NamedTuple):
    """What of a name tells its model from others; two that are equal mean one model."""

    words: str  # run together: "tiny-llama" is "tinyllama"
    numbers: tuple[str, ...]
    sizes: tuple[str, ...]

    @property
    def key(self) -> str:
        """A key to call the model by."""
        return "-".join((self.words, *self.numbers, *self.sizes)).strip("-") or "unnamed"


def model_name(name: str) -> ModelName:
    """Read a name; what stands in brackets counts where it has the size and the rest has none, or the active part.

    Parameters
    ----------
    name : str
        Such as "Qwen2.5 1.5B Instruct", "llama3.2:3b-instruct-q4_K_M", "bartowski/Phi-3.5-mini-instruct-GGUF" or
        "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf".
    """
    text = _FILE_TYPE.sub("", name.strip().lower())
    bare, inside = re.sub(r"\(.*?\)", " ", text), " ".join(re.findall(r"\((.*?)\)", text))
    read, within = _read(bare), _read(inside)
    tells = within.sizes and (not read.sizes or all(size.startswith("a") for size in within.sizes))
    return _read(f"{bare} {inside}") if tells else read


def _read(text: str) -> ModelName:
    text = _PASSED_OVER.sub(" ", _FULL_STOP.sub(" ", _FOLDER.sub("", text)))
    for written, meant in _WRITTEN_OTHERWISE:
        text = written.sub(meant, text)
    found: dict[str, list[str]] = {"part": [], "size": [], "number": [], "word": []}
    for token in _TOKEN.finditer(text):
        found[str(token.lastgroup)].append(token.group())
    words = (word for word in found["word"] if word not in SAME_SHAPE_WORDS)
    return ModelName(
        "".join(word for word, _ in groupby(words)),  # Qwen_Qwen2.5: the maker is called like its models
        tuple(sorted(re.sub(r"\.0$", "", number) for number in found["number"])),
        tuple(sorted(map(_size, {*found["size"], *found["part"]}))),
    )


def _size(token: str) -> str:
    """Return a size in billions, as short as can be; what stands before it stays: of experts, of the active part."""
    experts, times, one = token.rpartition("x")
    number = one.lstrip("ae")
    billions = float(number[:-1]) / (1.0 if number[-1] == "b" else 1e3)
    return f"{experts}{times}{one[: len(one) - len(number)]}{billions:g}b"


class KnownNames:
    """Finds models by their names and aliases; a name that two of them share means neither.

    Parameters
    ----------
    models : mapping
        By key.
    """

    def __init__(self, models: Mapping[str, ModelShape]) -> None:
        found = dict[ModelName, set[str]]()
        for key, model in models.items():
            for name in {model_name(one) for one in _names(key, model)}:
                found.setdefault(name, set()).add(key)
        self._key = {name: next(iter(keys)) for name, keys in found.items() if len(keys) == 1}

    def key(self, name: str) -> str:
        """Return the key of the model that a name means; "" where it is none of them, or nobody can tell which.

        Where nobody knows the whole name, what stands before its first underscore is taken for the maker.
        """
        return self._key.get(model_name(name)) or self._key.get(model_name(_MAKER.sub("", name.strip())), "")


def _names(key: str, model: ModelShape) -> Iterable[str]:
    return (key, model.name, *model.aliases)
