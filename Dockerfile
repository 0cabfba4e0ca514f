# The command `leakbound` on a CPU, as a user without rights.
#   docker build -t leakbound .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" leakbound audit --data private.jsonl --pairs 40
# Where pip would fetch a GPU build of torch: --build-arg TORCH_PIP="--index-url <the CPU index of PyTorch's install page>".
# The digest is that of docker-library/repo-info at 2986dca3 (Python 3.12.13, 8 platforms). A newer one of the tag, as
# `docker buildx imagetools inspect python:3.12-slim` prints it: --build-arg BASE=python:3.12-slim@sha256:DIGEST.
ARG BASE=python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36
FROM ${BASE} AS build
WORKDIR /src
ARG TORCH_PIP=""
COPY requirements ./requirements
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir ${TORCH_PIP} -r requirements/torch.txt \
 && /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes -r requirements/local.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${BASE}
COPY --from=build /venv /venv
RUN useradd --create-home --uid 1000 leakbound \
 && install --directory --owner leakbound /work
USER leakbound
WORKDIR /work
ENV HF_HUB_DISABLE_TELEMETRY=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
ENTRYPOINT ["/venv/bin/leakbound"]
CMD ["--help"]
