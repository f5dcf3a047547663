"""Output of other programs as `app.library.imported` takes it, and files of texts: what each is, and what it holds.

    llama_bench.py   tests of llama-bench, from its JSON, JSONL, CSV, SQL and Markdown
    tegrastats_log.py  samples of a log of NVIDIA tegrastats
    bandwidth_tools.py   bandwidth of STREAM and lmbench's bw_mem
    other_tools.py   what is no measurement that a row can hold, by the words of the tool that wrote it
    texts.py         prompts with references, and the scores of answers to them

Pure functions of a text; no file is opened here, and no row is made.
"""
