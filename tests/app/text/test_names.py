"""Names in words."""

from app.text.names import channel_name, short_name
from tests.app.views.parts import CATALOGUE


def test_names_are_short_where_there_is_no_room():
    formats, kv = CATALOGUE.weight_formats, CATALOGUE.kv_formats
    names = [short_name("point.weights", key, formats[key].name, CATALOGUE) for key in ("int4", "q4_k_m", "fp32")]
    assert names == ["int4 · 5.0 bit", "Q4_K_M · 4.9 bit", "fp32 · 32 bit"]
    assert all(len(short_name("point.weights", key, form.name, CATALOGUE)) <= 22 for key, form in formats.items())
    assert all(len(short_name("point.kv", key, form.name, CATALOGUE)) <= 22 for key, form in kv.items())
    assert short_name("point.runtime", "llamacpp_gpu", "llama.cpp or Ollama on a GPU", CATALOGUE) == "llama.cpp, GPU"
    for name, short in (
        ("Rockchip RK3588 (simulated)", "sim: Rockchip RK3588"),
        ("Rockchip RK3588 (simulated, its time 20 times as fast)", "sim: Rockchip RK3588"),
        ("Apple M3 Max (40-core GPU)", "Apple M3 Max"),
    ):
        assert short_name("point.board", "this", name, CATALOGUE) == short


def test_sensors_have_names_in_words():
    assert channel_name("cpu.steal_frac") == "CPU stolen by the host"
    assert channel_name("cpu0.clock_hz") == "CPU 0 clock"
    assert channel_name("package.temp_c") == "Package temperature"
    assert channel_name("gpu.power_w") == "GPU power"
    assert channel_name("fan.speed_rpm") == "fan.speed_rpm"
