# One image with all of Chipwarden's programs, for linux/amd64 and linux/arm64: nothing in here depends on the architecture.
#
#   docker build --tag chipwarden:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --tag REGISTRY/chipwarden:0.1.0 --push .
#
# BASE may be any image with Python 3.11 or newer, its venv module, and setpriv of util-linux (the DaemonSet starts the
# detector through it). Without a registry: --build-arg BASE=localhost/your-base.
#
# A private package index, or an authority that signs its certificate: --secret id=pip.conf,src=pip.conf and
# --secret id=ca.pem,src=ca.pem with `cert = /run/secrets/ca.pem` in pip.conf. Neither ends up in the image.
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BASE} AS build
RUN python3 -m venv /opt/chipwarden
WORKDIR /opt/chipwarden
COPY requirements/run.txt /tmp/run.txt
# --no-deps and hashes: exactly what is locked. Only wheels: there is no compiler here.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.pem \
    bin/python -m pip install --quiet --no-cache-dir --no-compile --no-deps --require-hashes --only-binary=:all: \
    --requirement /tmp/run.txt
# Never imported: the asynchronous client and the generated API classes, 64 MB without bytecode (see runtime/rest.py); boto3
# around botocore; and the descriptions of some 400 services of which recovery calls four.
RUN rm -r lib/python3*/site-packages/kubernetes/aio lib/python3*/site-packages/kubernetes/client/api/*_api.py \
    && cd lib/python3*/site-packages/botocore/data \
    && find . -mindepth 1 -maxdepth 1 -type d ! -name autoscaling ! -name cloudwatch ! -name ec2 ! -name sts -exec rm -r {} + \
    && find ec2 -mindepth 1 -maxdepth 1 ! -name 2016-11-15 -exec rm -r {} + \
    && cd /opt/chipwarden \
    && bin/python -m pip uninstall --quiet --yes boto3 s3transfer setuptools pip \
    && find bin -mindepth 1 ! -name 'python*' -delete
COPY runtime /tmp/code/runtime
COPY detector /tmp/code/detector
COPY recovery /tmp/code/recovery
# Bytecode is made here and never checked against its source again: where it runs, the root file system is read-only.
# The last line fails the build if BASE lacks a library or program.
RUN mv /tmp/code/* lib/python3*/site-packages/ \
    && for program in detector recovery; do \
         printf '#!/opt/chipwarden/bin/python\nimport sys\nfrom %s.__main__ import main\nsys.exit(main())\n' $program \
           > bin/chipwarden-$program && chmod 755 bin/chipwarden-$program; \
       done \
    && bin/python -m compileall -q -f --invalidation-mode unchecked-hash lib \
    && bin/chipwarden-detector rules check neuron > /dev/null && setpriv --version > /dev/null \
    && bin/chipwarden-recovery run --print-settings > /dev/null \
    && bin/python -c "from botocore.session import Session; [Session().create_client(each, 'us-east-1') \
       for each in ('autoscaling', 'cloudwatch', 'ec2', 'sts')]"

FROM ${BASE}
LABEL org.opencontainers.image.title="Chipwarden" \
      org.opencontainers.image.description="Keeps accelerator training fleets alive" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/chipwarden /opt/chipwarden
# One malloc arena: a second one, for a thread that hardly ever runs, costs 11 MB of 60.
ENV PATH=/opt/chipwarden/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 MALLOC_ARENA_MAX=1
# Reading /dev/kmsg takes more where kernel.dmesg_restrict is set: the DaemonSet overrides this for the detector alone.
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["chipwarden-detector"]
CMD ["run"]
