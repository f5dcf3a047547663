import numpy as np
import pytest

from core.catalogue import inputs
from tests.places import RESOURCES


def test_every_example_is_read():
    chat = inputs.read_workload(RESOURCES / "workloads" / "chat.toml")
    assert chat.seconds.tolist() == [12, 25]
    assert inputs.read_workload(RESOURCES / "workloads" / "steady.toml").load_frac.tolist() == [1]
    trace = inputs.read_workload(RESOURCES / "workloads" / "trace.csv")
    assert trace.seconds.sum() == 90
    assert trace.load_frac.tolist() == [0, 1, 0, 1, 0.4, 1, 0]
    plan = inputs.read_plan(RESOURCES / "examples" / "schedule.toml")
    assert {op.name: op.length_s for op in plan.operations}["qkv"] == pytest.approx(1769472 / 51.2e9)
    chain = inputs.read_plan(RESOURCES / "examples" / "pipeline.toml")
    assert (chain.lengths, chain.overlaps, chain.unit) == ((8, 12, 3), (0, 2, 0), "cycles")
    assert chain.name == "QKV in FP16, O in INT4, residual in BF16"
    tasks = inputs.read_tasks(RESOURCES / "examples" / "realtime.toml")
    assert tasks.switch_ns == 2100
    assert tasks.tasks[1].jitter_ns == 1_000_000
    assert inputs.read_scenario(RESOURCES / "examples" / "scenario.toml").max_latency_s == 0.1


def test_seconds_become_whole_nanoseconds_on_the_safe_side(tmp_path):
    file = tmp_path / "t.toml"
    file.write_text('[[task]]\nname="a"\ncost_s=0.0083e-3\nperiod_s=1.0000000004\njitter_s=1.2e-9\n')
    task = inputs.read_tasks(file).tasks[0]
    assert (task.cost_ns, task.period_ns, task.jitter_ns) == (8300, 1_000_000_000, 2)


def test_recorded_power_is_read(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("time_s,power_w,note\n0,5,x\n2,9,\n5,0,\n")
    found = inputs.read_workload(file)
    assert found.power_w.tolist() == [5, 9]
    assert found.load_frac.size == 0
    np.testing.assert_array_equal(found.seconds, [2, 3])


BAD = [
    ("read_workload", "w.toml", "x = 1", "w.toml: phase: got nothing, expected at least one"),
    ("read_workload", "w.toml", "[[phase]]\nseconds = 1\nload_frac = 2", "phase 1: load_frac: got 2, expected"),
    ("read_workload", "w.toml", "[[phase]]\nseconds = 0\nload_frac = 1", "phase 1: seconds: got 0,"),
    (
        "read_workload",
        "w.toml",
        "[[phase]]\nseconds = 1\nload_frac = 1\nw = 2",
        "phase 1: w: got 2, expected no such key",
    ),
    ("read_workload", "w.toml", "nonsense", "w.toml: got text that is not TOML"),
    ("read_workload", "w.csv", "time_s,load_frac\n0,1\n", "w.csv: time_s: got 1 times, expected at least two"),
    ("read_workload", "w.csv", "time_s,load_frac\n3,1\n2,1\n", "time_s: got 2 after 3, expected times that rise"),
    ("read_workload", "w.csv", "time_s,load_frac\n0,x\n1,1\n", "w.csv: line 2: load_frac: got 'x', expected a number"),
    ("read_workload", "w.csv", "time_s,load_frac\n0,1.5\n1,1\n", "load_frac: got 1.5, expected"),
    ("read_workload", "w.csv", "a,b\n", "w.csv: line 1: got columns a, b, expected one named time_s"),
    ("read_workload", "w.csv", "", "w.csv: line 1: got columns none"),
    ("read_plan", "s.toml", '[[operation]]\nname="a"', "operation 1: length_s: got nothing"),
    ("read_plan", "s.toml", '[[operation]]\nname="a"\nformula="magic"', "formula: got 'magic', expected one of memory"),
    ("read_plan", "s.toml", '[[operation]]\nname="a"\nformula="memory"\nbyte=1', "bandwidth_byte_s: got nothing"),
    (
        "read_plan",
        "s.toml",
        '[[operation]]\nname="a"\nformula="memory"\nbyte=1\nbandwidth_byte_s=0',
        "operation 1: bandwidth",
    ),
    (
        "read_plan",
        "s.toml",
        '[[operation]]\nname="a"\nlength_s=1\nafter="b"',
        "after: got 'b', expected a list of texts",
    ),
    ("read_plan", "s.toml", '[[operation]]\nname="a"\nlength_s=1\nflop=1', "flop: got 1, expected no such key"),
    ("read_plan", "s.toml", "n_workers = 0\n[[operation]]\nname='a'\nlength_s=1", "n_workers: got 0"),
    ("read_plan", "s.toml", '[[stage]]\nname="a"\nlength=-1', "stage 1: length: got -1,"),
    (
        "read_tasks",
        "t.toml",
        "[[task]]\nname='a'\ncost_s=1\nperiod_s=2\nsection_s=3",
        "section_s: got 3.0, expected at most",
    ),
    ("read_plan", "s.toml", '[[stage]]\nname="a"\nlength=0', "stage 1: length: got 0,"),
    (
        "read_plan",
        "s.toml",
        '[[stage]]\nname="a"\nlength=1\noverlap=1',
        "stage 1: overlap: got 1.0, expected at most 0",
    ),
    (
        "read_plan",
        "s.toml",
        '[[stage]]\nname="a"\nlength=1\n[[stage]]\nname="b"\nlength=9\noverlap=1.5',
        "stage 2: overlap: got 1.5, expected at most 1, the length of the stage in front",
    ),
    (
        "read_plan",
        "s.toml",
        '[default]\nbandwith_byte_s=1\n[[operation]]\nname="a"\nlength_s=1',
        "default: bandwith_byte_s: got 1, expected one of bandwidth_byte_s, byte",
    ),
    ("read_plan", "s.toml", '[[operation]]\nname="\\u001b[2J"\nlength_s=1', "name: .* without control characters"),
    ("read_workload", "w.toml", "a = " + "[" * 9000, "w.toml: got .* tables too deep to read"),
    ("read_workload", "w.toml", "a = " + "9" * 9000, "w.toml: got a number too long"),
    (
        "read_workload",
        "w.toml",
        f"[[phase]]\nseconds = {'9' * 400}\nload_frac=1",
        "seconds: got a number far too large, expected",
    ),
    (
        "read_workload",
        "w.toml",
        f"[[phase]]\nseconds = 0x{'f' * 9000}\nload_frac=1",
        "seconds: got a number far too large, expected",
    ),
    ("read_workload", "w.csv", f'time_s,load_frac\n"{"9" * 200_000}",1', "w.csv: line 2: got a cell without end"),
    ("read_workload", "w.csv", 'time_s,load_frac\n0,1\n"1,1\n2,1\n', "w.csv: line 3: got a quote that is not closed"),
    ("read_workload", "w.csv", "time_s,time_s,load_frac\n0,0,1\n1,1,1\n", "expected one named time_s"),
    ("read_tasks", "t.toml", "[[task]]\nname='a'\ncost_s=true\nperiod_s=2", "cost_s: got True"),
    ("read_tasks", "t.toml", "task = 3", "task: got 3, expected at least one"),
    ("read_scenario", "c.toml", "name='x'\nmin_accuracy_frac=1", "min_accuracy_frac: got 1,"),
]


@pytest.mark.parametrize(("reader", "name", "text", "says"), BAD)
def test_bad_files_are_refused_in_one_sentence(tmp_path, reader, name, text, says):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ValueError, match=says) as caught:
        getattr(inputs, reader)(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"gone.toml: cannot be read \(No such file"):
        inputs.read_plan(tmp_path / "gone.toml")
    (tmp_path / "b.toml").write_bytes(b"\x7fELF\x02\x01\x01\x00")
    with pytest.raises(ValueError, match=r"^b\.toml: got bytes that are no text \(it begins with 7f 45 4c 46"):
        inputs.read_plan(tmp_path / "b.toml")
    with pytest.raises(ValueError, match="cannot be read"):
        inputs.read_plan(tmp_path / ("x" * 400))
    with pytest.raises(ValueError, match="cannot be read"):
        inputs.read_plan(tmp_path / "a\0b")


def test_a_file_saved_by_a_spreadsheet_is_read(tmp_path):
    file = tmp_path / "w.csv"
    file.write_bytes(b"\xef\xbb\xbftime_s , load_frac\r\n0,1\r\n10,0\r\n")
    assert inputs.read_workload(file).seconds.tolist() == [10.0]
    plan = tmp_path / "s.toml"
    plan.write_bytes(b'\xef\xbb\xbf[[operation]]\r\nname = "a"\r\nlength_s = 2\r\n')
    assert inputs.read_plan(plan).operations[0].length_s == 2.0
