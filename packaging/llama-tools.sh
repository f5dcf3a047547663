#!/usr/bin/env bash
# Build llama-server and llama-bench for the tests, from the sources of the llama-cpp-python that is installed and
# against its library: only their own files are compiled (a minute of one core).
# Usage: llama-tools.sh VENV        they go to VENV/llama.cpp/
set -eu
venv=$(cd "$1" && pwd)
out=$venv/llama.cpp
python=$venv/bin/python
version=$("$python" -c 'import importlib.metadata as m; print(m.version("llama-cpp-python"))')
lib=$("$python" -c 'import importlib.util as u; print(u.find_spec("llama_cpp").submodule_search_locations[0])')/lib
[ "$(cat "$out/version" 2>/dev/null)" != "$version" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
    --dest "$work" "llama-cpp-python==$version"
tar -xzf "$work"/*.tar.gz -C "$work"
src=$(echo "$work"/*/vendor/llama.cpp)
mkdir "$work/o"

# the server's web pages are C arrays in its build; ours has none to show
for page in "$src"/examples/server/public/*; do
    name=$(basename "$page")
    word=$(echo "$name" | tr '.-' '__')
    echo "unsigned char $word[] = {0}; unsigned int ${word}_len = 0;" >"$work/o/$name.hpp"
done

include="-I$src/include -I$src/ggml/include -I$src/common -I$src/examples/server -I$work/o"
ls "$src"/common/*.cpp "$src/examples/server/server.cpp" "$src/examples/llama-bench/llama-bench.cpp" |
    xargs -P 2 -I{} sh -c "c++ -std=c++17 -O1 -w $include -c {} -o $work/o/\$(basename {} .cpp).o"
common=$(find "$work/o" -name '*.o' ! -name server.o ! -name llama-bench.o)
mkdir -p "$out"
for tool in server llama-bench; do
    c++ -o "$out/llama-${tool#llama-}" "$work/o/$tool.o" $common -L"$lib" -Wl,-rpath,"$lib" \
        -lllama -lggml -lggml-base -lggml-cpu -pthread
done
echo "$version" >"$out/version"
