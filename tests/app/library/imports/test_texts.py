import json

import pytest

from app.library.imports.texts import Text, against, scores, texts_of

PAIR = {"prompt": "Say hello.", "reference": "Hello there."}


def test_csv_and_json_lines_are_the_same_texts():
    table = texts_of("t.csv", 'reference;prompt;note\n"Hello there.";"Say hello.";x\n')
    assert table == texts_of("t.jsonl", json.dumps(PAIR) + "\n\n") == [Text("Say hello.", "Hello there.")]


@pytest.mark.parametrize(
    ("name", "whole", "says"),
    [
        ("t.csv", "", "one column prompt"),
        ("t.csv", "prompt,answer\na,b\n", "one column reference"),
        ("t.csv", "prompt,reference\n", "got 0 texts"),
        ("t.csv", "prompt,reference\na,\n", "line 2: reference: got ''"),
        ("t.jsonl", "[1]\n", "line 1: got '[1]', expected a JSON object"),
        ("t.jsonl", "{\n", "expected a JSON object"),
        ("t.jsonl", '{"prompt": "a", "reference": NaN}', "reference: got nan"),
        ("t.jsonl", '{"prompt": "a", "reference": -3}', "reference: got -3"),
        ("t.jsonl", json.dumps({**PAIR, "prompt": "x" * 12001}), "got 12001 characters"),
        ("t.jsonl", (json.dumps(PAIR) + "\n") * 201, "got 201 texts, expected 1 to 200"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(name, whole, says):
    with pytest.raises(ValueError, match=rf"^{name}: ") as error:
        texts_of(name, whole)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def token(name, log_p, first, **top):
    return {"token": name, "log_probability": log_p, "listed": True, "first": first, "top": top}


def answer(*tokens, text="Hello there.", request_s=0.5):
    return {"text": text, "request_s": request_s, "tokens": list(tokens)}


def test_scores_of_answers_with_and_without_probabilities():
    texts = [Text(**PAIR)] * 2
    right = answer(token("1", -0.5, True, **{"1": -0.5}))
    found = scores(texts, [right, answer(token("1", -1.5, False, **{"2": -0.5}), text="Goodbye now friend.")])
    assert found["perplexity"]["median"] == pytest.approx(2.718281828)
    assert found["top1"]["median"] == 0.5
    assert found["rouge_l"]["median"] == 0.5
    assert found["rouge_l"]["q05"] <= 0.5 <= found["rouge_l"]["q95"]
    assert found["request_s"]["p99"] == 0.5
    absent = scores(texts, [right, {**right, "tokens": {"absent": "it tells none"}}])
    assert absent["perplexity"] == absent["top1"] == {"absent": "it tells none"}
    assert absent["rouge_l"]["median"] == 1.0


def test_a_reference_run_is_compared_where_tokens_agree():
    mine = [answer(token("1", -0.7, True, a=-0.7, b=-0.9), token("5", -1.0, True, c=-1.0))]
    theirs = [answer(token("1", -0.2, True, a=-0.2, b=-2.0), token("6", -1.0, True, c=-1.0))]
    found = against(mine, theirs)
    assert (found["n_tokens"], found["n_other_tokens"]) == (1, 1)
    assert found["agreement"]["median"] == 1.0
    assert found["kl"]["median"] > 0.1
    assert against(mine, mine)["kl"]["median"] == 0.0
    assert "absent" in against([answer(token("9", -1.0, True, z=-1.0))], [answer(token("8", -1.0, True, y=-1.0))])["kl"]
