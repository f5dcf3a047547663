from kernels.cache.byte_lru import Memo


def test_forgets_what_was_not_used_for_longest():
    memo = Memo(10, len)
    memo.put("a", "aaaa")
    memo.put("b", "bbbb")
    assert memo.get("a") == "aaaa"
    memo.put("c", "cccc")
    assert memo.get("b") is None
    assert [k for k, _ in memo.items()] == ["a", "c"]


def test_keeps_one_value_that_is_larger_than_the_bound():
    memo = Memo(2, len)
    memo.put("a", "aaaa")
    assert memo.get("a") == "aaaa"
    memo.put("b", "bbbb")
    assert memo.items() == [("b", "bbbb")]
