"""Settings of other runtimes for an operating point: one writer a runtime, and what its settings cannot express.

`written` holds what all writers share; `writers` is the table of them. `llama_cpp` (llama-server, Ollama), `vllm`,
`tensorrt_llm`, `mlc`, `rkllm`, `genie` and `mindie` write files of the documented keys (docs/runtimes.md). Never here:
files on disk, Qt.
"""
