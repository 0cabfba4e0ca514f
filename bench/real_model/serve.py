"""Serve a model of fetch.py on loopback by llama.cpp, in this process, until it is stopped.

    python bench/real_model/serve.py qwen-1.5b [--port 8731] [--threads 2] [--slots 1]

Needs the package xllamacpp, llama.cpp built beforehand (`make real-model` installs it). One slot
keeps the prompt of its last request, so requests that start alike cost what is new in them.
"""

from __future__ import annotations

import argparse
import signal
import sys

from fetch import MODELS, Unavailable, fetch, known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--port", type=int, default=8731)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096, help="tokens of a slot")
    given = parser.parse_args()
    print(known(given.model), flush=True)
    try:
        file = fetch(given.model)
    except Unavailable as why:
        print(f"error: {why}", file=sys.stderr)
        return 4
    import xllamacpp

    how = xllamacpp.CommonParams()
    how.model.path = str(file)
    how.n_ctx, how.n_parallel = given.context * given.slots, given.slots
    how.kv_unified, how.cache_ram_mib = False, 0  # a slot keeps its prompt itself
    how.hostnames, how.port = ["127.0.0.1"], given.port
    how.cpuparams.n_threads = how.cpuparams_batch.n_threads = given.threads
    how.warmup = False
    server = xllamacpp.Server(how)
    print(f"{server.listening_address}/v1", flush=True)
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
