# The command `leakbound` on a CPU, as a user without rights.
#   docker build -t leakbound .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" leakbound audit --data private.jsonl --pairs 40
# Where pip would fetch a GPU build of torch: --build-arg TORCH_PIP="--index-url <the CPU index of PyTorch's install page>".
FROM python:3.12-slim AS build
WORKDIR /src
ARG TORCH_PIP=""
COPY requirements ./requirements
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir ${TORCH_PIP} -r requirements/torch.txt \
 && /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes -r requirements/local.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --create-home --uid 1000 leakbound \
 && install --directory --owner leakbound /work
USER leakbound
WORKDIR /work
ENV HF_HUB_DISABLE_TELEMETRY=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
ENTRYPOINT ["/venv/bin/leakbound"]
CMD ["--help"]
