# `qcs` on a plain base. Nothing of CUDA is inside: the host's driver comes in with `docker run --gpus all`.
FROM rust:1.95-slim AS build
COPY . /qcs
RUN cargo install --locked --path /qcs --root /opt
FROM debian:stable-slim
COPY --from=build /opt/bin/qcs /usr/local/bin/qcs
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /data
ENTRYPOINT ["qcs"]
