# syntax=docker/dockerfile:1
# One static binary in an empty image: no shell, no libraries, nobody but the user 65532.
#
#   docker build -t ghcr.io/basalt-sh/basalt:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 .
ARG RUST_VERSION=1.95.0
FROM rust:${RUST_VERSION}-alpine AS build
# The allocator and the cryptography have parts in C.
RUN apk add --no-cache gcc make musl-dev
WORKDIR /src
ARG RUST_VERSION
# The toolchain of the image as it is: rust-toolchain.toml would fetch more.
ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}
COPY . .
ARG PROFILE=release
# Alpine's Rust builds for musl, and musl's programs are static.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --locked --profile "$PROFILE" --package basalt --bin basalt \
    && install -D "target/$PROFILE/basalt" /out/basalt \
    && if ldd /out/basalt 2>/dev/null | grep -q '=>'; then echo "the binary is not static" >&2; exit 1; fi

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title=basalt \
      org.opencontainers.image.description="Queues, gangs and reservations for Kubernetes" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.source=https://github.com/basalt-sh/basalt \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /out/basalt /basalt
USER 65532:65532
ENTRYPOINT ["/basalt"]
