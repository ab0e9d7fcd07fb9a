# The pipeline in a container, as `bertline compile` starts its steps and as Beam's workers elsewhere run.
#
#   docker build -t bertline:0.1.0 .                                  for processors
#   docker build -t bertline:0.1.0-gpu --build-arg VARIANT=gpu .      with CUDA's libraries
FROM python:3.11-slim-bookworm

ARG VARIANT=cpu
ENV VIRTUAL_ENV=/opt/bertline \
    PATH=/opt/bertline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    UV_COMPILE_BYTECODE=1 \
    TF_USE_LEGACY_KERAS=1 \
    HOME=/tmp

# uv takes the lock as it is; pip would refuse TFX for its bound on Python.
RUN pip install --no-cache-dir uv==0.13.8 && uv venv --seed "$VIRTUAL_ENV"

WORKDIR /src
COPY requirements-${VARIANT}.lock requirements.lock
RUN uv pip sync --no-cache requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY bertline bertline
COPY pipeline pipeline
COPY components components
COPY models models
COPY serving serving
RUN uv pip install --no-cache --no-deps --no-build-isolation .

# Any user but root: a cluster may give it another number.
USER 10001
WORKDIR /tmp
CMD ["bertline", "--help"]
