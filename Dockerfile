# syntax=docker/dockerfile:1
# Cronstream's one binary, built from this tree. `docker compose build` makes it.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --package cronstream \
    && cp target/dist/cronstream /usr/local/bin/cronstream

FROM debian:bookworm-slim
# Certificates for tasks that call the outside; a shell for tasks that are commands is there already.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin cronstream
COPY --from=build /usr/local/bin/cronstream /usr/local/bin/cronstream
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["/usr/local/bin/cronstream"]
CMD ["--help"]
