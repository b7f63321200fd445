# The image of every role: `waybill` and, for local use, the provider sink. `docker build .` needs BuildKit (the default builder).
#
# Tags name versions, not digests: pin digests where you publish (`docker buildx imagetools inspect IMAGE` prints them). Debian 12 is under
# both stages, so that the C library is the same.

FROM rust:1.95.0-bookworm AS build
WORKDIR /src
# The image's own toolchain is the one of rust-toolchain.toml, whose components for developers would be downloaded otherwise.
ENV RUSTUP_TOOLCHAIN=1.95.0 \
    SQLX_OFFLINE=true \
    CARGO_INCREMENTAL=0 \
    RUSTFLAGS="--remap-path-prefix=/src=. --remap-path-prefix=/usr/local/cargo=cargo"
COPY . .
# Dependencies stay in the cache mounts, so a change of ours builds our crates only; the binaries leave them by `install`.
ARG SOURCE_DATE_EPOCH=0
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked --package waybill --package waybill-sink --bin waybill --bin waybill-sink \
    && install -D -t /out/usr/local/bin target/release/waybill target/release/waybill-sink \
    && install -d /out/var/lib/waybill \
    && find /out -exec touch --date="@${SOURCE_DATE_EPOCH}" {} +

# No shell, no package manager; root certificates, time zones and the user 65532.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Waybill" \
      org.opencontainers.image.description="Delivers business documents; nothing lost, nothing sent twice, everything explained" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /out/usr/local/bin/ /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/var/lib/waybill/ /var/lib/waybill/
USER 65532:65532
WORKDIR /var/lib/waybill
# Runs on a read-only root. Documents go to S3; only with WAYBILL_OBJECTS=disk is the folder below written, and then it needs a volume.
ENV WAYBILL_API_LISTEN=0.0.0.0:8080 \
    WAYBILL_OPS_LISTEN=0.0.0.0:8081 \
    WAYBILL_LOG_FORMAT=json \
    WAYBILL_DATA_DIR=/var/lib/waybill
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# Whether the process lives. Whether traffic should come is `waybill health --ready`: a database that is away must not restart anybody.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["/usr/local/bin/waybill", "health"]
ENTRYPOINT ["/usr/local/bin/waybill"]
CMD ["all"]
